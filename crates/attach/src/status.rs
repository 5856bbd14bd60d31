//! STATUS: could an ADD succeed now? Answers "not available" (50) when not.

use crate::config::ConfigFields;
use crate::daemon::NodeClient;
use crate::delegate::{self, PluginEnv};
use crate::message::DaemonRequest;
use crate::{
    CniCommand, CniContext, CniVersion, Error, Invocation, PluginType, chain, coordinator, del, ipoib,
    readiness,
};
use ferroband_kernel::NetnsMode;
use std::time::Duration;

/// Ask everybody that an ADD with this configuration would need.
pub(crate) fn status(machine: &CniContext<'_>, role: PluginType, call: &Invocation) -> Result<(), Error> {
    let around =
        PluginEnv { container: "", netns: "", ifname: "", args: "".into(), path: &call.path, lock: None };
    let fields = call.config.fields();
    match role {
        PluginType::Ferroband => {
            readiness::wait(machine, call, Duration::ZERO).map_err(not_ready)?;
            check_daemon(machine)?;
            check_wrapped(fields, &around)
        }
        PluginType::Whereabouts | PluginType::Spiderpool => check_daemon(machine),
        PluginType::Coordinator => coordinator::parse_config(fields).map(drop),
        PluginType::Rdma => match machine.require_hardware()?.rdma_netns_mode() {
            Ok(NetnsMode::Exclusive) => Ok(()),
            Ok(NetnsMode::Shared) => Err(not_ready(Error::SharedRdma)),
            Err(error) => Err(not_ready(error.into())),
        },
        PluginType::Ipoib | PluginType::IbSriov => {
            let usable = match role {
                PluginType::Ipoib => ipoib::parse_config(fields).and_then(|child| {
                    machine.host.ipoib_parent(&child.parent)?;
                    Ok(())
                }),
                // Which device it will be, nobody knows yet.
                _ if fields.flag("rdmaIsolation")? => match machine.require_hardware()?.rdma_netns_mode()? {
                    NetnsMode::Exclusive => Ok(()),
                    NetnsMode::Shared => Err(Error::SharedRdma),
                },
                _ => Ok(()),
            };
            usable.map_err(not_ready)?;
            match fields.ipam_type()? {
                None => Ok(()),
                ipam if PluginType::is_daemon_ipam(ipam) => check_daemon(machine),
                Some(ipam) => delegate::run(ipam, CniCommand::Status, &around, call.config.bytes()).map(drop),
            }
        }
    }
}

fn check_daemon(machine: &CniContext<'_>) -> Result<(), Error> {
    let daemon = NodeClient::connect(machine, machine.timeouts.best_effort);
    daemon.and_then(|mut daemon| daemon.request_done(machine, &DaemonRequest::Status)).map_err(not_ready)
}

/// The networks that the configuration wraps; the first answer that is not "ready" goes out unchanged.
fn check_wrapped(fields: ConfigFields<'_>, around: &PluginEnv<'_>) -> Result<(), Error> {
    for network in del::wrapped_networks(fields) {
        let network = chain::parse_foreign(network.0, "", true)?;
        if network.version()? < CniVersion::V1_1_0 {
            continue;
        }
        for step in &network.steps {
            delegate::run(
                step.plugin(),
                CniCommand::Status,
                around,
                &chain::build_stdin(&network, step, None),
            )?;
        }
    }
    Ok(())
}

fn not_ready(error: Error) -> Error {
    Error::NotReady { source: Box::new(error) }
}
