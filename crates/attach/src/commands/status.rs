//! STATUS: returns error 50 ("not available") if an ADD could not succeed now.

use crate::commands::sandbox;
use crate::ipc::message::DaemonRequest;
use crate::ipc::node_client::NodeClient;
use crate::ipc::plan::Attachment;
use crate::protocol::{CniCommand, CniContext, CniVersion, Error, Invocation, PluginType};
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::rdma;
use ferroband_config::{ConfigFields, CoordinatorConfig, IbSriovConfig, IpoibConfig, PluginConfig};
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
            sandbox::wait_until_ready(context, call, Duration::ZERO).map_err(not_ready)?;
            // If the runtime got an error, it would start no pod at all, not even a plain one.
            if call.config.plain_pods().is_none() {
                check_daemon(context)?;
            }
            check_wrapped(&call.config, &env)
        }
        PluginType::Whereabouts | PluginType::Spiderpool => check_daemon(context),
        PluginType::Coordinator => Ok(CoordinatorConfig::parse(fields).map(drop)?),
        PluginType::Rdma => rdma::require_exclusive_mode(context).map_err(not_ready),
        PluginType::Ipoib | PluginType::IbSriov => {
            let usable = match plugin_type {
                PluginType::Ipoib => check_parent(context, fields),
                // The configuration does not name a device yet, so only the node's RDMA mode can be checked.
                _ if IbSriovConfig::rdma_isolation(fields)? == Some(true) => {
                    match context.require_hardware()?.rdma_netns_mode()? {
                        NetnsMode::Exclusive => Ok(()),
                        NetnsMode::Shared => Err(Error::SharedRdma),
                    }
                }
                _ => Ok(()),
            };
            usable.map_err(not_ready)?;
            if sandbox::needs_permission(context.root, plugin_type, &call.config) {
                check_daemon(context)?;
            }
            let interface = call.config.interface()?;
            match interface.ipam_plugin {
                None => Ok(()),
                Some(_) if interface.uses_daemon_ipam() => check_daemon(context),
                Some(ipam) => delegate::run(ipam, CniCommand::Status, &env, call.config.bytes()).map(drop),
            }
        }
    }
}

fn check_parent(context: &CniContext<'_>, fields: ConfigFields<'_>) -> Result<(), Error> {
    context.host.ipoib_parent(&IpoibConfig::parse(fields)?.parent)?;
    Ok(())
}

fn check_daemon(context: &CniContext<'_>) -> Result<(), Error> {
    let daemon = NodeClient::connect(context, context.timeouts.best_effort);
    daemon.and_then(|mut daemon| daemon.request_done(context, &DaemonRequest::Status)).map_err(not_ready)
}

/// Check the networks that the configuration wraps (`delegates`). The first error is returned unchanged.
fn check_wrapped(config: &PluginConfig, env: &PluginEnv<'_>) -> Result<(), Error> {
    for network in config.wrapped_networks() {
        let network = Attachment::foreign(network, "", true)?;
        if network.version()? < CniVersion::V1_1_0 {
            continue;
        }
        for step in &network.steps {
            delegate::run(step.plugin(), CniCommand::Status, env, &network.stdin(step, None))?;
        }
    }
    Ok(())
}

fn not_ready(error: Error) -> Error {
    Error::NotReady { source: Box::new(error) }
}
