//! What `ferroband-cni` and the node daemon say to each other over the socket.
//!
//! One connection serves one CNI call. For an ADD:
//!
//! ```text
//! cni ── Add ────────▶ node     the plan is made; assigning the addresses starts at once
//! cni ◀──────── Plan ─ node
//!  (default network, interfaces …)
//! cni ── Members ────▶ node     only if the plan says so: waits until the ports are in their partitions
//! cni ◀──────── Done ─ node
//! cni ── Addresses ──▶ node     waits for what was started
//! cni ◀── Addresses ── node
//!  (addresses, routes …)
//! cni ── Attached ───▶ node     one PATCH of the pod
//! cni ◀──────── Done ─ node
//! ```
//!
//! At any time, on a connection of an ADD or on one of its own, `Unbroken` asks for work that the CNI side must not do
//! itself, because somebody may kill it meanwhile.
//!
//! A connection that ends before `Attached` frees nothing: the interface may exist. `Release` does.

#![warn(missing_docs)]

use crate::DeviceOp;
use crate::plan::{AssignedAddresses, Plan};
use ferroband_model::{Fault, Guid, PciAddress, PodRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A CNI call, as the runtime made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CniCall {
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// The pod of `CNI_ARGS`, when there is one.
    pub pod: Option<PodRef>,
    /// The configuration from standard input.
    pub config: Value,
}

/// What the CNI side asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DaemonRequest {
    /// Plan this sandbox. The network namespace comes along as a file descriptor.
    Add(CniCall),
    /// These ports exist now; say when they are members of their partitions. Asked if [`Plan::membership`] says so.
    Members(Vec<PortMember>),
    /// Do this, whatever becomes of me. The lock of the device comes along as a file descriptor, and after it the
    /// sandbox's network namespace if it is needed.
    #[serde(rename = "unbroken")]
    DeviceOp(DeviceOp),
    /// Give me the addresses that the plan promised.
    Addresses,
    /// It is done; record it on the pod.
    Attached(Vec<AttachmentOutcome>),
    /// Assign addresses for one interface by `config.ipam` alone (called as `whereabouts`).
    Assign(CniCall),
    /// This sandbox is gone from the node, or this one interface of it: free what it held.
    Release {
        /// `CNI_CONTAINERID`.
        container: String,
        /// Only this interface; all of the sandbox when absent.
        ifname: Option<String>,
    },
    /// Are you ready to serve ADD?
    Status,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DaemonReply {
    /// Carry this out.
    Plan(Plan),
    /// The assigned addresses.
    Addresses(Vec<AssignedAddresses>),
    /// Done.
    Done,
    /// It cannot be.
    Fault(Fault),
}

/// A port of the pod that is to be in a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMember {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// The interface in the pod.
    pub ifname: String,
    /// The function behind it; an IPoIB child shares its parent's, which the plan names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PciAddress>,
    /// The GUID of the function's port now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Guid>,
}

/// What became of one attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttachmentOutcome {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// The CNI result of its last plugin, in the newest version's form.
    pub result: Value,
    /// What the device behind it is, in the form of the device-info specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_info: Option<Value>,
}
