//! What a pod requests from the fabric: a port of it that must become a member of a partition.

use crate::{Guid, PKey, PciAddress, RequestedPKey};
use serde::{Deserialize, Serialize};

/// A port of a pod and the partition that it must be a member of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPartitionRequest {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// Network name, `<namespace>/<name>`.
    pub network: String,
    /// Interface name in the pod.
    pub ifname: String,
    /// The partition; absent for a function that must not be in any managed partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkey: Option<RequestedPKey>,
    /// Whether the port is a limited member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
    /// The port.
    pub port: RequestedPort,
}

/// The port that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestedPort {
    /// The port of a virtual function, which only this pod uses.
    Function {
        /// PCI address of the function.
        pci: PciAddress,
        /// The GUID that the pod requests for the function; absent if the function keeps its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guid: Option<Guid>,
    },
    /// The port of the adapter with this IPoIB interface. All pods with child interfaces of this interface share the
    /// port.
    Parent(String),
}

impl PodPartitionRequest {
    /// Returns the entry that the port's P_Key table must contain, or `None` if the request names no partition.
    pub fn table_entry(&self) -> Option<PKey> {
        self.pkey.map(|key| if self.limited { key.limited() } else { key.full() })
    }
}
