//! What went wrong, in the one form that every face of the product shows: the CNI error, the pod's event,
//! the condition of an object, the line on a terminal.

mod explanation;
mod variants;

pub use explanation::Explanation;

use serde::{Deserialize, Serialize};
use std::fmt;

/// A failure told to people: the thing, the cause and the remedy, under a stable code.
///
/// Crates have typed errors of their own; each turns into a `Fault` at the edge where somebody reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The stable code; also the event's and the condition's reason.
    pub code: FaultCode,
    /// The thing that is wrong, by name: `network default/jarvice-ipoib`, `interface ib0`.
    pub what: String,
    /// Why, in one clause without a full stop.
    pub cause: String,
    /// What to do about it, in one clause without a full stop.
    pub remedy: String,
}

impl Fault {
    /// A fault of `code` about `what`.
    pub fn new(
        code: FaultCode,
        what: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { code, what: what.into(), cause: cause.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {} [{}]", self.what, self.cause, self.remedy, self.code.reason())
    }
}

impl std::error::Error for Fault {}

/// The stable codes. A reader may match on them, so none is ever renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FaultCode {
    /// Environment variables of the CNI call are missing or malformed.
    BadCall,
    /// The network configuration is not JSON of the right shape.
    Undecodable,
    /// The network configuration decodes but asks for something that cannot be.
    InvalidConfig,
    /// The configuration's CNI version is not one of ours, or too old for the command.
    IncompatibleVersion,
    /// The pod's network annotation cannot be understood.
    InvalidAnnotation,
    /// A network attachment definition that the pod names does not exist.
    NoNetworkFound,
    /// The pod is not known to the API server.
    PodNotFound,
    /// The pod of this name is another one now than the one that the sandbox is for.
    PodReplaced,
    /// The parent interface is not on this node.
    NoParent,
    /// The parent interface exists but is not an IPoIB interface.
    NotIpoib,
    /// The interface name is already used in the pod.
    NameTaken,
    /// The pod's network namespace is not usable.
    BadNamespace,
    /// No address is free.
    PoolExhausted,
    /// The address is somebody else's, or may still be.
    AddressHeld,
    /// Somebody else on the link uses the address.
    AddressConflict,
    /// The gateway does not answer.
    GatewayUnreachable,
    /// Nobody names a pool of addresses, or none of those named may be used.
    NoPool,
    /// The kernel refused a change.
    KernelRefused,
    /// A CNI binary that the configuration names is not installed.
    NoPlugin,
    /// Another CNI plugin failed.
    PluginFailed,
    /// The node daemon does not answer.
    DaemonAway,
    /// The API server does not answer, or refuses.
    ApiUnavailable,
    /// The journal could not be written or read.
    Journal,
    /// There is no default network to wrap.
    NoDefaultNetwork,
    /// A port of the fabric cannot be used yet.
    PortNotReady,
    /// The kernel has no RDMA.
    NoRdma,
    /// A device is not there, or not where it should be.
    NoDevice,
    /// A device is in use and cannot be changed now.
    DeviceBusy,
}

impl FaultCode {
    /// The word that stands in events, conditions and error messages.
    pub fn reason(self) -> &'static str {
        match self {
            Self::BadCall => "BadCall",
            Self::Undecodable => "Undecodable",
            Self::InvalidConfig => "InvalidConfig",
            Self::IncompatibleVersion => "IncompatibleVersion",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::NoNetworkFound => "NoNetworkFound",
            Self::PodNotFound => "PodNotFound",
            Self::PodReplaced => "PodReplaced",
            Self::NoParent => "NoParent",
            Self::NotIpoib => "NotIpoib",
            Self::NameTaken => "NameTaken",
            Self::BadNamespace => "BadNamespace",
            Self::PoolExhausted => "PoolExhausted",
            Self::AddressHeld => "AddressHeld",
            Self::AddressConflict => "AddressConflict",
            Self::GatewayUnreachable => "GatewayUnreachable",
            Self::NoPool => "NoPool",
            Self::KernelRefused => "KernelRefused",
            Self::NoPlugin => "NoPlugin",
            Self::PluginFailed => "PluginFailed",
            Self::DaemonAway => "DaemonAway",
            Self::ApiUnavailable => "ApiUnavailable",
            Self::Journal => "Journal",
            Self::NoDefaultNetwork => "NoDefaultNetwork",
            Self::PortNotReady => "PortNotReady",
            Self::NoRdma => "NoRdma",
            Self::NoDevice => "NoDevice",
            Self::DeviceBusy => "DeviceBusy",
        }
    }

    /// The code of the CNI specification (1.1.0, section "Error"); our own start at 100.
    pub fn cni_code(self) -> u32 {
        match self {
            Self::IncompatibleVersion => 1,
            Self::BadCall => 4,
            Self::Journal => 5,
            Self::Undecodable => 6,
            Self::InvalidConfig => 7,
            Self::BadNamespace => 8,
            Self::DaemonAway
            | Self::ApiUnavailable
            | Self::NoDefaultNetwork
            | Self::PortNotReady
            | Self::AddressHeld
            | Self::DeviceBusy => 11,
            Self::InvalidAnnotation => 100,
            Self::NoNetworkFound => 101,
            Self::PodNotFound => 102,
            Self::NoParent => 103,
            Self::NotIpoib => 104,
            Self::NameTaken => 105,
            Self::PoolExhausted => 106,
            Self::KernelRefused => 107,
            Self::NoPlugin => 108,
            Self::PluginFailed => 109,
            Self::NoRdma => 110,
            Self::NoDevice => 111,
            Self::PodReplaced => 112,
            Self::NoPool => 120,
            Self::AddressConflict => 121,
            Self::GatewayUnreachable => 122,
        }
    }
}
