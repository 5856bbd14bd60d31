//! Errors as shown to users, and their CNI error codes.

use crate::protocol::{CniVersion, Error};
use ferroband_model::{Fault, FaultCode};

impl Error {
    /// The error as shown to users: what failed, why, and what to do.
    pub fn fault(&self) -> Fault {
        let with_text = |code, what: &str, remedy: &str| Fault::new(code, what, self.to_string(), remedy);
        match self {
            Self::Reported(fault) => fault.clone(),
            Self::Config(error) => error.fault(),
            Self::Kernel(error) => error.fault(),
            Self::Channel { source } => source.fault(),
            Self::NotReady { source } => source.fault(),
            Self::OnNetwork { network, source } => prefix_network(network, source.fault()),
            Self::Multiple { errors } => merge_faults(errors),

            Self::MissingVariables { .. }
            | Self::Variable { .. }
            | Self::EmptyContainer
            | Self::UnknownCommand { .. }
            | Self::MalformedArgument { .. }
            | Self::UnknownArgument { .. } => {
                with_text(FaultCode::BadCall, "CNI call", "fix the runtime or the plugin that made the call")
            }
            Self::UnknownProgram { .. } => {
                with_text(FaultCode::BadCall, "CNI call", "install the binary under the name of a plugin")
            }
            Self::OwnNamespace { path } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {path}"),
                "it is the plugin's own network namespace",
                "use a separate sandbox, or set CNI_NETNS_OVERRIDE",
            ),
            Self::Stdin { .. } | Self::Stdout { .. } => {
                with_text(FaultCode::Journal, "CNI call", "fix the runtime or the plugin that made the call")
            }
            Self::NoPreviousResult => with_text(
                FaultCode::InvalidConfig,
                "network configuration",
                "chain the plugin after the one that creates the interface, with its result as prevResult",
            ),
            Self::NoManagedGuid { .. } => with_text(
                FaultCode::InvalidConfig,
                "pod's InfiniBand network",
                "check that ib-kubernetes, or Ferroband in its place, is running; retried automatically",
            ),
            Self::NoFunction { .. } | Self::NotVirtual { .. } | Self::NotVfio { .. } => with_text(
                FaultCode::NoDevice,
                "pod's device",
                "run `ferroband inspect` to list the functions of this node",
            ),
            Self::NotInfiniBand { .. } => with_text(
                FaultCode::InvalidConfig,
                "pod's device",
                "select functions of an InfiniBand adapter for the resource, or use another plugin",
            ),
            Self::NoGuid { .. } => with_text(
                FaultCode::PortNotReady,
                "pod's device",
                "set a GUID in the pod's annotation or in the policy that creates the functions",
            ),
            Self::NoNetdev { .. } => with_text(
                FaultCode::NoDevice,
                "pod's device",
                "check that ib_ipoib is loaded and that no other sandbox has the interface",
            ),
            Self::FunctionInUse { .. } => with_text(
                FaultCode::DeviceBusy,
                "pod's device",
                "retried automatically; if it persists, check why that container is still running",
            ),
            Self::FunctionChanged { .. } => with_text(
                FaultCode::KernelRefused,
                "pod's device",
                "find what changed the device, then delete the pod; its replacement is attached again",
            ),
            Self::RdmaDevices { .. } => with_text(
                FaultCode::NoDevice,
                "pod's device",
                "check `rdma dev` on this node; a device in another namespace cannot be attached",
            ),
            Self::SharedRdma => with_text(
                FaultCode::InvalidConfig,
                "network configuration",
                "set `rdmaMode: exclusive` in the node's SriovNetworkPoolConfig, or remove rdmaIsolation",
            ),
            Self::AmbiguousDevice { .. } => {
                with_text(FaultCode::InvalidConfig, "network configuration", "set `deviceID`")
            }
            Self::CommandNeedsVersion { .. } => with_text(
                FaultCode::IncompatibleVersion,
                "incompatible CNI versions",
                &format!("supported versions: {}", CniVersion::supported_list()),
            ),
            Self::ResultNeedsAddress { .. } => with_text(
                FaultCode::InvalidConfig,
                "network configuration",
                "set `cniVersion` to 0.3.0 or newer, or configure IPAM",
            ),
            Self::PluginName { .. } => {
                with_text(FaultCode::InvalidConfig, "network configuration", "set `type` to a plugin name")
            }
            Self::NoPlugin { plugin, path } => Fault::new(
                FaultCode::NoPlugin,
                format!("plugin {plugin}"),
                format!("not found in {path}"),
                "install the plugin on this node, or correct `type` in the configuration",
            ),
            Self::NoAlias { plugin, alias, path } => Fault::new(
                FaultCode::NoPlugin,
                format!("plugin {plugin}"),
                format!("it executes the IPAM plugin {alias}, which is not in {path}"),
                format!("add {alias} to the Helm value node.aliases (`ferroband node --alias={alias}`)"),
            ),
            Self::Plugin { plugin, command, reply } => Fault::new(
                FaultCode::PluginFailed,
                format!("plugin {plugin}"),
                format!("{command} failed: {}", reply.text()),
                "see the documentation of that plugin",
            ),
            Self::Exec { .. } | Self::PluginOutput { .. } | Self::InvalidResult { .. } => with_text(
                FaultCode::PluginFailed,
                "plugin of the network configuration",
                "check that the binary in CNI_PATH is the intended CNI plugin",
            ),
            Self::NoAddress { .. } => {
                with_text(FaultCode::PoolExhausted, "network configuration", "check the `ipam` section")
            }
            Self::RouteAttribute { .. } => with_text(
                FaultCode::InvalidConfig,
                "routes of the IPAM plugin",
                "fix the attribute, or remove it from the route",
            ),
            Self::File { .. }
            | Self::CorruptFile { .. }
            | Self::UnknownSchema { .. }
            | Self::Inconsistent { .. } => with_text(
                FaultCode::Journal,
                "Ferroband state on this node",
                "check whether the disk is full or damaged",
            ),
            Self::Locked { .. } => {
                with_text(FaultCode::Journal, "sandbox", "retried automatically when the other call is done")
            }
            Self::DefaultNetworkNotReady { .. } => with_text(
                FaultCode::NoDefaultNetwork,
                "default network",
                "retried automatically; if it persists, check the default network's pods on this node",
            ),
            Self::DaemonUnavailable { .. } | Self::UnexpectedReply { .. } => with_text(
                FaultCode::DaemonAway,
                "Ferroband node daemon",
                "retried automatically; if it persists, check the `ferroband-node` pod on this node",
            ),
            Self::AlreadyAttached { .. } | Self::NameTaken { .. } => with_text(
                FaultCode::NameTaken,
                "sandbox",
                "delete the attachment first, or choose another interface name",
            ),
            Self::NotAttached { .. } => with_text(FaultCode::BadCall, "sandbox", "run ADD first"),
            Self::Sysctl { .. } | Self::NoInterface { .. } => {
                with_text(FaultCode::KernelRefused, "pod's interface", "check the kernel log of this node")
            }
            Self::DuplicateAddress { .. } => with_text(
                FaultCode::KernelRefused,
                "pod's interface",
                "find the host that uses the address, or exclude the address in the `ipam` section",
            ),
            Self::AddressInUse { .. } => with_text(
                FaultCode::NameTaken,
                "pod's interface",
                "use another address: traffic of the node to this one belongs to its owner",
            ),
            Self::TableInUse { .. } => with_text(
                FaultCode::InvalidConfig,
                "network configuration",
                "set `hostRuleTable` to a table that no other rule of the node selects",
            ),
            Self::WrongKind { .. } | Self::AddressMissing { .. } | Self::RouteMissing { .. } => with_text(
                FaultCode::KernelRefused,
                "pod's interface",
                "find what changed the interface, then delete the pod; its replacement gets a new one",
            ),
            Self::Interrupted => with_text(FaultCode::DaemonAway, "CNI call", "retried automatically"),
        }
    }

    /// The `code` of the CNI error object.
    pub fn code(&self) -> u32 {
        match self {
            Self::EmptyContainer | Self::NotAttached { .. } => 3,
            // 11 means "try again later". The daemon's cache may not contain a new pod yet, and for a deleted
            // pod the runtime does not retry anyway. A success without a network, as in upstream, would start
            // the pod without its network.
            Self::Reported(fault) if fault.code == FaultCode::PodNotFound => 11,
            Self::Locked { .. } | Self::Interrupted => 11,
            Self::NotReady { .. } => 50,
            // Pass the delegated plugin's codes for "try again later" (11) and for STATUS (50 and 51) to the
            // runtime.
            Self::Plugin { reply, .. } if reply.code == 11 || reply.is_status() => reply.code,
            Self::OnNetwork { source, .. } => source.code(),
            Self::Multiple { errors } if !errors.is_empty() => errors[0].code(),
            _ => self.fault().code.cni_code(),
        }
    }
}

fn prefix_network(network: &str, fault: Fault) -> Fault {
    Fault { what: format!("network {network}: {}", fault.what), ..fault }
}

fn merge_faults(errors: &[Error]) -> Fault {
    let faults: Vec<_> = errors.iter().map(Error::fault).collect();
    match faults.as_slice() {
        [] => Fault::new(FaultCode::Journal, "sandbox", "unknown error", "see the log of the runtime"),
        [first, others @ ..] => {
            let mut fault = first.clone();
            for other in others {
                fault.cause.push_str(&format!(" / {}: {}", other.what, other.cause));
            }
            fault
        }
    }
}

#[cfg(test)]
mod tests;
