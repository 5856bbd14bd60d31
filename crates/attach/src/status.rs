//! STATUS: could an ADD succeed now? Answers "not available" (50) when not.

use crate::config::Fields;
use crate::daemon::Daemon;
use crate::delegate::{self, Surroundings};
use crate::message::Request;
use crate::{Command, Error, Invocation, Machine, Role, Version, chain, coordinator, del, ipoib, readiness};
use ferroband_kernel::NetnsMode;
use std::time::Duration;

/// Ask everybody that an ADD with this configuration would need.
pub(crate) fn status(machine: &Machine<'_>, role: Role, call: &Invocation) -> Result<(), Error> {
    let around =
        Surroundings { container: "", netns: "", ifname: "", args: "".into(), path: &call.path, lock: None };
    let fields = call.config.fields();
    match role {
        Role::Ferroband => {
            readiness::wait(machine, call, Duration::ZERO).map_err(not_ready)?;
            daemon(machine)?;
            wrapped(fields, &around)
        }
        Role::Whereabouts | Role::Spiderpool => daemon(machine),
        Role::Coordinator => coordinator::of_config(fields).map(drop),
        Role::Rdma => match machine.adapters()?.rdma_netns_mode() {
            Ok(NetnsMode::Exclusive) => Ok(()),
            Ok(NetnsMode::Shared) => Err(not_ready(Error::SharedRdma)),
            Err(error) => Err(not_ready(error.into())),
        },
        Role::Ipoib | Role::IbSriov => {
            let usable = match role {
                Role::Ipoib => ipoib::of_config(fields).and_then(|child| {
                    machine.host.ipoib_parent(&child.parent)?;
                    Ok(())
                }),
                // Which device it will be, nobody knows yet.
                _ if fields.flag("rdmaIsolation")? => match machine.adapters()?.rdma_netns_mode()? {
                    NetnsMode::Exclusive => Ok(()),
                    NetnsMode::Shared => Err(Error::SharedRdma),
                },
                _ => Ok(()),
            };
            usable.map_err(not_ready)?;
            match fields.ipam_type()? {
                None => Ok(()),
                ipam if Role::assigns(ipam) => daemon(machine),
                Some(ipam) => delegate::run(ipam, Command::Status, &around, call.config.bytes()).map(drop),
            }
        }
    }
}

fn daemon(machine: &Machine<'_>) -> Result<(), Error> {
    let daemon = Daemon::reach(machine, machine.patience.quick);
    daemon.and_then(|mut daemon| daemon.tell(machine, &Request::Status)).map_err(not_ready)
}

/// The networks that the configuration wraps; the first answer that is not "ready" goes out unchanged.
fn wrapped(fields: Fields<'_>, around: &Surroundings<'_>) -> Result<(), Error> {
    for network in del::wrapped(fields) {
        let network = chain::foreign(network.0, "", true)?;
        if network.version()? < Version::V1_1_0 {
            continue;
        }
        for step in &network.steps {
            delegate::run(step.plugin(), Command::Status, around, &chain::stdin(&network, step, None))?;
        }
    }
    Ok(())
}

fn not_ready(error: Error) -> Error {
    Error::NotReady { source: Box::new(error) }
}
