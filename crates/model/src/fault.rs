//! Errors as shown to users: CNI errors, pod events, status conditions and command output use the same form.

mod explanation;
#[cfg(test)]
mod tests;

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

crate::named_enum! {
    /// Stable codes. Users may match on them, so they are never renamed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[non_exhaustive]
    pub enum FaultCode {
        /// Environment variables of the CNI call are missing or malformed.
        BadCall = "BadCall",
        /// The network configuration is not JSON with the expected types.
        Undecodable = "Undecodable",
        /// The network configuration is well-formed but invalid.
        InvalidConfig = "InvalidConfig",
        /// The CNI version of the configuration is not supported, or too old for the command.
        IncompatibleVersion = "IncompatibleVersion",
        /// A network annotation of the pod is invalid.
        InvalidAnnotation = "InvalidAnnotation",
        /// A NetworkAttachmentDefinition that the pod requests does not exist.
        NoNetworkFound = "NoNetworkFound",
        /// The pod does not exist in the API server.
        PodNotFound = "PodNotFound",
        /// The pod was re-created under the same name; the sandbox belongs to the old pod.
        PodReplaced = "PodReplaced",
        /// The parent interface does not exist on this node.
        NoParent = "NoParent",
        /// The parent interface exists but is not an IPoIB interface.
        NotIpoib = "NotIpoib",
        /// The interface name is already used in the pod.
        NameTaken = "NameTaken",
        /// The pod's network namespace cannot be used.
        BadNamespace = "BadNamespace",
        /// The range or pool has no free address.
        PoolExhausted = "PoolExhausted",
        /// The address is, or may still be, in use by another pod.
        AddressHeld = "AddressHeld",
        /// Another host on the link uses the address.
        AddressConflict = "AddressConflict",
        /// The gateway does not respond.
        GatewayUnreachable = "GatewayUnreachable",
        /// No address pool is configured, or none of the configured pools is eligible.
        NoPool = "NoPool",
        /// The kernel rejected a change.
        KernelRefused = "KernelRefused",
        /// A CNI plugin binary of the configuration is not installed.
        NoPlugin = "NoPlugin",
        /// Another CNI plugin failed.
        PluginFailed = "PluginFailed",
        /// The node daemon does not respond.
        DaemonAway = "DaemonAway",
        /// The API server does not respond, or rejects the call.
        ApiUnavailable = "ApiUnavailable",
        /// The journal could not be written or read.
        Journal = "Journal",
        /// There is no default network to delegate to.
        NoDefaultNetwork = "NoDefaultNetwork",
        /// An InfiniBand port is not active, or has no valid P_Key yet.
        PortNotReady = "PortNotReady",
        /// The kernel has no RDMA support.
        NoRdma = "NoRdma",
        /// A device is missing, or not in the expected namespace.
        NoDevice = "NoDevice",
        /// A device is in use and cannot be changed now.
        DeviceBusy = "DeviceBusy",
        /// A network names a device that was not allocated to the pod.
        DeviceNotAllocated = "DeviceNotAllocated",
    }
}

impl FaultCode {
    /// The name of the code. It is the reason of events and conditions, and is appended to error messages.
    pub fn reason(self) -> &'static str {
        self.as_str()
    }

    /// Returns the last code in brackets in `text`. Programs that pass on an error of Ferroband, such as the kubelet,
    /// put their own words around it.
    pub fn find_in(text: &str) -> Option<Self> {
        let words = text.rsplit('[').filter_map(|part| Some(part.split_once(']')?.0));
        words.into_iter().find_map(Self::from_name)
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
            Self::DeviceNotAllocated => 113,
            Self::NoPool => 120,
            Self::AddressConflict => 121,
            Self::GatewayUnreachable => 122,
        }
    }
}
