//! Errors as people read them, and as the specification counts them.

use crate::{CniVersion, Error};
use ferroband_model::{Fault, FaultCode};

impl Error {
    /// The same, as it is told to people.
    pub fn fault(&self) -> Fault {
        let told = |code, what: &str, remedy: &str| Fault::new(code, what, self.to_string(), remedy);
        match self {
            Self::Reported(fault) => fault.clone(),
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
                told(FaultCode::BadCall, "the CNI call", "correct the runtime or plugin that calls")
            }
            Self::UnknownProgram { .. } => {
                told(FaultCode::BadCall, "the CNI call", "install the program under the name of a plugin")
            }
            Self::OwnNamespace { path } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {path}"),
                "it is the one that the plugin runs in",
                "give a sandbox of its own, or set CNI_NETNS_OVERRIDE",
            ),
            Self::Stdin { .. } | Self::Stdout { .. } => {
                told(FaultCode::Journal, "the CNI call", "correct the runtime or plugin that calls")
            }
            Self::InvalidJson { .. } => {
                told(FaultCode::Undecodable, "the network configuration", "correct its JSON")
            }
            Self::Field { .. } | Self::NetworkName { .. } => {
                told(FaultCode::InvalidConfig, "the network configuration", "correct the field")
            }
            Self::NoPreviousResult => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "call the plugin after the one that makes the interface, with that one's result",
            ),
            Self::NoMaster => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "name an IPoIB interface of the node in `master`",
            ),
            Self::NoDeviceId => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "name the resource of the functions in the definition's annotation \
                 k8s.v1.cni.cncf.io/resourceName, and let the pod ask for one",
            ),
            Self::InvalidGuid { .. } => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "write eight bytes in hexadecimal with colons between, not all of them zero",
            ),
            Self::NotMarkedConfigured { .. } | Self::NoManagedGuid { .. } => told(
                FaultCode::InvalidConfig,
                "the pod's InfiniBand network",
                "see whether the partition's manager runs; the pod is tried again by itself",
            ),
            Self::NoFunction { .. } | Self::NotVirtual { .. } | Self::NotVfio { .. } => told(
                FaultCode::NoDevice,
                "the pod's device",
                "see `ferroband inspect` on this node for the functions that there are",
            ),
            Self::NotInfiniBand { .. } => told(
                FaultCode::InvalidConfig,
                "the pod's device",
                "take functions of an InfiniBand adapter into the resource, or use another plugin",
            ),
            Self::NoGuid { .. } => told(
                FaultCode::PortNotReady,
                "the pod's device",
                "give the function a GUID, in the pod's annotation or by the policy that makes the functions",
            ),
            Self::NoNetdev { .. } => told(
                FaultCode::NoDevice,
                "the pod's device",
                "see that ib_ipoib is loaded, and that no other sandbox has the interface",
            ),
            Self::FunctionInUse { .. } => told(
                FaultCode::DeviceBusy,
                "the pod's device",
                "it is tried again; if this stays, see why that container still runs",
            ),
            Self::FunctionChanged { .. } => told(
                FaultCode::KernelRefused,
                "the pod's device",
                "find who changed it; delete the pod to have it given anew",
            ),
            Self::RdmaDevices { .. } => told(
                FaultCode::NoDevice,
                "the pod's device",
                "see `rdma dev` on this node; a device that is in another namespace cannot be given",
            ),
            Self::SharedRdma => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "leave rdmaIsolation out, or make the mode exclusive: `options ib_core netns_mode=0` and a reboot",
            ),
            Self::AmbiguousDevice { .. } => {
                told(FaultCode::InvalidConfig, "the network configuration", "name the device in `deviceID`")
            }
            Self::Dhcp => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "use another IPAM plugin, for example whereabouts",
            ),
            Self::IncompatibleVersion { .. } | Self::CommandNeedsVersion { .. } => told(
                FaultCode::IncompatibleVersion,
                "incompatible CNI versions",
                &format!("we speak exactly {}", CniVersion::supported_list()),
            ),
            Self::ResultNeedsAddress { .. } => told(
                FaultCode::InvalidConfig,
                "the network configuration",
                "set `cniVersion` to 0.3.0 or newer, or configure IPAM",
            ),
            Self::PluginName { .. } => {
                told(FaultCode::InvalidConfig, "the network configuration", "correct `type`")
            }
            Self::NoPlugin { plugin, path } => Fault::new(
                FaultCode::NoPlugin,
                format!("plugin {plugin}"),
                format!("it is not in {path}"),
                "install it on this node, or correct `type`",
            ),
            Self::Plugin { plugin, command, answer } => Fault::new(
                FaultCode::PluginFailed,
                format!("plugin {plugin}"),
                format!("it failed on {command}: {}", answer.text()),
                "see that plugin's documentation",
            ),
            Self::Exec { .. } | Self::PluginOutput { .. } | Self::InvalidResult { .. } => told(
                FaultCode::PluginFailed,
                "a plugin that the network configuration names",
                "see whether the right program is installed",
            ),
            Self::NoAddress { .. } => {
                told(FaultCode::PoolExhausted, "the network configuration", "see the `ipam` section")
            }
            Self::RouteAttribute { .. } => told(
                FaultCode::InvalidConfig,
                "the routes of the IPAM plugin",
                "correct it, or leave it out of the route",
            ),
            Self::File { .. }
            | Self::CorruptFile { .. }
            | Self::UnknownSchema { .. }
            | Self::Inconsistent { .. } => told(
                FaultCode::Journal,
                "the state of ferroband on this node",
                "see whether the disk is full or damaged",
            ),
            Self::Locked { .. } => {
                told(FaultCode::Journal, "the sandbox", "it is tried again when the other call is done")
            }
            Self::DefaultNetworkNotReady { .. } => told(
                FaultCode::NoDefaultNetwork,
                "the default network",
                "it is tried again; if this stays, look at the pods of the default network on this node",
            ),
            Self::DaemonUnavailable { .. } | Self::UnexpectedReply { .. } => told(
                FaultCode::DaemonAway,
                "the node daemon of ferroband",
                "it is tried again; if this stays, look at the pod `ferroband-node` of this node",
            ),
            Self::AlreadyAttached { .. } | Self::NameTaken { .. } => told(
                FaultCode::NameTaken,
                "the sandbox",
                "delete the attachment first, or choose another interface name",
            ),
            Self::NotAttached { .. } => told(FaultCode::BadCall, "the sandbox", "attach it first"),
            Self::Sysctl { .. } | Self::NoInterface { .. } => {
                told(FaultCode::KernelRefused, "the pod's interface", "see the kernel's log of this node")
            }
            Self::DuplicateAddress { .. } => told(
                FaultCode::KernelRefused,
                "the pod's interface",
                "find who uses the address, and exclude it in the `ipam` section",
            ),
            Self::WrongKind { .. } | Self::AddressMissing { .. } | Self::RouteMissing { .. } => told(
                FaultCode::KernelRefused,
                "the pod's interface",
                "find who changed it; delete the pod to have it made anew",
            ),
            Self::Interrupted => told(FaultCode::DaemonAway, "the CNI call", "it is tried again"),
        }
    }

    /// The code for the runtime.
    pub fn code(&self) -> u32 {
        match self {
            Self::EmptyContainer | Self::NotAttached { .. } => 3,
            // The API server and the runtime see a new pod at different times; a pod that is really gone is
            // not asked for again. Success without a network, upstream's answer, would start the pod without it.
            Self::Reported(fault) if fault.code == FaultCode::PodNotFound => 11,
            Self::Locked { .. } | Self::Interrupted => 11,
            Self::NotReady { .. } => 50,
            // A delegate that asks to be tried again, or answers STATUS, is to be heard.
            Self::Plugin { answer, .. } if answer.code == 11 || answer.is_status() => answer.code,
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
        [] => Fault::new(FaultCode::Journal, "the sandbox", "nothing", "nothing"),
        [first, others @ ..] => {
            let mut fault = first.clone();
            for other in others {
                fault.cause.push_str(&format!(" / {}: {}", other.what, other.cause));
            }
            fault
        }
    }
}
