//! Messages between `ferroband-cni` and the node daemon.
//!
//! One connection serves one CNI call. For an ADD:
//!
//! ```text
//! cni ── Add ────────▶ node     builds the plan and starts assigning addresses
//! cni ◀──────── Plan ─ node
//!  (default network, interfaces …)
//! cni ── Members ────▶ node     only if the plan requires it: waits until the ports are in their partitions
//! cni ◀──────── Done ─ node
//! cni ── Addresses ──▶ node     waits for the assignment
//! cni ◀── Addresses ── node
//!  (addresses, routes …)
//! cni ── Attached ───▶ node     one PATCH of the pod
//! cni ◀──────── Done ─ node
//! ```
//!
//! `DeviceOp` may come at any time, on an ADD's connection or on a separate one. It requests a device operation that
//! the CNI process must not perform itself, because the runtime may kill it meanwhile.
//!
//! A connection that closes before `Attached` releases nothing, because the interface may exist. Only `Release` does.

#![warn(missing_docs)]

use crate::ipc::plan::{AssignedAddresses, Plan};
use ferroband_model::{Fault, Guid, PciAddress, PodRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parameters of a CNI call, as received from the runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CniCall {
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// The pod named by `CNI_ARGS`; absent if the caller is not Kubernetes.
    pub pod: Option<PodRef>,
    /// Configuration from standard input.
    pub config: Value,
    /// Addresses that `IP` in `CNI_ARGS` requests for the interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
}

/// A request from the CNI process to the node daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DaemonRequest {
    /// Build the plan of a sandbox. Carries the network namespace as a file descriptor.
    Add(CniCall),
    /// Wait until these ports are members of their partitions. Sent if [`Plan::membership`] is set.
    Members(Vec<PortMember>),
    /// Perform a device operation, even if the caller dies. Carries the device's lock as a file descriptor, followed
    /// by the sandbox's network namespace if needed.
    #[serde(rename = "unbroken")]
    DeviceOp(DeviceOp),
    /// Return the addresses assigned for the plan.
    Addresses,
    /// The attachments are complete; record them on the pod.
    Attached(Vec<AttachmentOutcome>),
    /// Assign addresses for one interface according to `config.ipam` only (plugin `whereabouts` or `spiderpool`).
    Assign(CniCall),
    /// Plan one interface whose plugin (`ipoib` or `ib-sriov`) is called on its own and uses a P_Key or a GUID. The reply
    /// is a plan with this interface only. Carries the network namespace as a file descriptor.
    AddInterface(CniCall),
    /// Release the addresses of a sandbox, or of one interface, that is gone from the node.
    Release {
        /// `CNI_CONTAINERID`.
        container: String,
        /// Interface whose addresses are released; when absent, those of the whole sandbox are.
        ifname: Option<String>,
    },
    /// Report whether ADD can be served.
    Status,
}

/// A device operation. All of them are idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DeviceOp {
    /// Unbind the function's driver, if it has one, and let the kernel probe it again.
    Rebind {
        /// PCI address of the function.
        function: PciAddress,
    },
    /// Move an RDMA device from the host into the sandbox.
    #[serde(rename = "lend")]
    MoveToPod {
        /// Name of the RDMA device on the host.
        device: String,
    },
    /// Move an RDMA device from the sandbox back to the host.
    #[serde(rename = "takeBack")]
    MoveToHost {
        /// Current name of the RDMA device in the sandbox.
        device: String,
    },
}

/// A reply from the node daemon to the CNI process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DaemonReply {
    /// Reply to `Add` and `AddInterface`: the plan to apply.
    Plan(Plan),
    /// Reply to `Addresses` and `Assign`: the assigned addresses.
    Addresses(Vec<AssignedAddresses>),
    /// The request succeeded, and there is nothing to return.
    Done,
    /// The request failed. The fault says why and what to do.
    Fault(Fault),
}

/// A port of the pod that must become a member of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMember {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// Name of the interface in the pod.
    pub ifname: String,
    /// PCI address of the port's function; absent for an IPoIB child, which shares its parent's function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PciAddress>,
    /// Current GUID of the port; absent for an IPoIB child, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Guid>,
}

/// Result of one attachment, to be recorded on the pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttachmentOutcome {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// CNI result of the last plugin, in the format of the newest CNI version.
    pub result: Value,
    /// Content of the device-info file; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_info: Option<Value>,
}
