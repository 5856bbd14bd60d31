//! Errors as shown to users: CNI errors, pod events, status conditions and command output use the same form.

mod explanation;
mod variants;

pub use explanation::Explanation;

use serde::{Deserialize, Serialize};
use std::fmt;

/// An error for users: affected thing, cause and remedy, with a stable code.
///
/// Crates use their own typed errors internally and convert them to a `Fault` where users see them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Stable code; also the reason of events and conditions.
    pub code: FaultCode,
    /// Kind and name of the affected object: `network default/jarvice-ipoib`, `interface ib0`.
    pub what: String,
    /// Cause, in one clause without a full stop.
    pub cause: String,
    /// Remedy, in one clause without a full stop.
    pub remedy: String,
}

impl Fault {
    /// Creates a fault. The fields of [`Fault`] describe the form of each text.
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

/// Stable codes. Users may match on them, so they are never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FaultCode {
    /// Environment variables of the CNI call are missing or malformed.
    BadCall,
    /// The network configuration is not JSON with the expected types.
    Undecodable,
    /// The network configuration is well-formed but invalid.
    InvalidConfig,
    /// The CNI version of the configuration is not supported, or too old for the command.
    IncompatibleVersion,
    /// A network annotation of the pod is invalid.
    InvalidAnnotation,
    /// A NetworkAttachmentDefinition that the pod requests does not exist.
    NoNetworkFound,
    /// The pod does not exist in the API server.
    PodNotFound,
    /// The pod was re-created under the same name; the sandbox belongs to the old pod.
    PodReplaced,
    /// The parent interface does not exist on this node.
    NoParent,
    /// The parent interface exists but is not an IPoIB interface.
    NotIpoib,
    /// The interface name is already used in the pod.
    NameTaken,
    /// The pod's network namespace cannot be used.
    BadNamespace,
    /// The range or pool has no free address.
    PoolExhausted,
    /// The address is, or may still be, in use by another pod.
    AddressHeld,
    /// Another host on the link uses the address.
    AddressConflict,
    /// The gateway does not respond.
    GatewayUnreachable,
    /// No address pool is configured, or none of the configured pools is eligible.
    NoPool,
    /// The kernel rejected a change.
    KernelRefused,
    /// A CNI plugin binary of the configuration is not installed.
    NoPlugin,
    /// Another CNI plugin failed.
    PluginFailed,
    /// The node daemon does not respond.
    DaemonAway,
    /// The API server does not respond, or rejects the call.
    ApiUnavailable,
    /// The journal could not be written or read.
    Journal,
    /// There is no default network to delegate to.
    NoDefaultNetwork,
    /// An InfiniBand port is not active, or has no valid P_Key yet.
    PortNotReady,
    /// The kernel has no RDMA support.
    NoRdma,
    /// A device is missing, or not in the expected namespace.
    NoDevice,
    /// A device is in use and cannot be changed now.
    DeviceBusy,
}

impl FaultCode {
    /// The name of the code. It is the reason of events and conditions, and is appended to error messages.
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

    /// CNI error code (specification 1.1.0, section "Error"); Ferroband's own codes start at 100.
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
