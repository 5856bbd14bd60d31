//! STATUS: returns error 50 ("not available") if an ADD could not succeed now.

use crate::commands::{PlainPods, del, readiness};
use crate::ipc::message::DaemonRequest;
use crate::ipc::node_client::NodeClient;
use crate::protocol::config::ConfigFields;
use crate::protocol::{CniCommand, CniContext, CniVersion, Error, Invocation, PluginType};
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::{chain, coordinator, ipoib};
use ferroband_kernel::NetnsMode;
use std::time::Duration;

/// Check everything that an ADD with this configuration needs.
pub(crate) fn status(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    call: &Invocation,
) -> Result<(), Error> {
    let env =
        PluginEnv { container: "", netns: "", ifname: "", args: "".into(), path: &call.path, lock: None };
    let fields = call.config.fields();
    match plugin_type {
        PluginType::Ferroband => {
            readiness::wait(context, call, Duration::ZERO).map_err(not_ready)?;
            // If the runtime got an error, it would start no pod at all, not even a plain one.
            if PlainPods::from_config(fields).is_none() {
                check_daemon(context)?;
            }
            check_wrapped(fields, &env)
        }
        PluginType::Whereabouts | PluginType::Spiderpool => check_daemon(context),
        PluginType::Coordinator => coordinator::parse_config(fields).map(drop),
        PluginType::Rdma => match context.require_hardware()?.rdma_netns_mode() {
            Ok(NetnsMode::Exclusive) => Ok(()),
            Ok(NetnsMode::Shared) => Err(not_ready(Error::SharedRdma)),
            Err(error) => Err(not_ready(error.into())),
        },
        PluginType::Ipoib | PluginType::IbSriov => {
            let usable = match plugin_type {
                PluginType::Ipoib => ipoib::parse_config(fields).and_then(|child| {
                    context.host.ipoib_parent(&child.parent)?;
                    Ok(())
                }),
                // The configuration does not name a device yet, so only the node's RDMA mode can be checked.
                _ if fields.flag("rdmaIsolation")? => match context.require_hardware()?.rdma_netns_mode()? {
                    NetnsMode::Exclusive => Ok(()),
                    NetnsMode::Shared => Err(Error::SharedRdma),
                },
                _ => Ok(()),
            };
            usable.map_err(not_ready)?;
            match fields.ipam_type()? {
                None => Ok(()),
                ipam if PluginType::is_daemon_ipam(ipam) => check_daemon(context),
                Some(ipam) => delegate::run(ipam, CniCommand::Status, &env, call.config.bytes()).map(drop),
            }
        }
    }
}

fn check_daemon(context: &CniContext<'_>) -> Result<(), Error> {
    let daemon = NodeClient::connect(context, context.timeouts.best_effort);
    daemon.and_then(|mut daemon| daemon.request_done(context, &DaemonRequest::Status)).map_err(not_ready)
}

/// Check the networks that the configuration wraps (`delegates`). The first error is returned unchanged.
fn check_wrapped(fields: ConfigFields<'_>, env: &PluginEnv<'_>) -> Result<(), Error> {
    for network in del::wrapped_networks(fields) {
        let network = chain::parse_foreign(network.0, "", true)?;
        if network.version()? < CniVersion::V1_1_0 {
            continue;
        }
        for step in &network.steps {
            delegate::run(step.plugin(), CniCommand::Status, env, &chain::build_stdin(&network, step, None))?;
        }
    }
    Ok(())
}

fn not_ready(error: Error) -> Error {
    Error::NotReady { source: Box::new(error) }
}
