//! Second stage of an ADD: builds the plan of a pod from what was resolved. Pure: no I/O and no clock.
//!
//! ```text
//! ResolvedAdd ── build_plan ──▶ Plan ── Attachment (interface, device, steps) ──▶ CNI plugin
//!                               │   └── PodPartitionRequest (port, P_Key) ──────▶ partition
//!                               └── AttachmentIpRequests ───────────────────────▶ address
//! ResolvedInterface ── for_interface ──▶ AttachmentIpRequests
//! ```

mod allocated_devices;
mod attachment;
mod capability;
mod ip_requests;
mod plan;
#[cfg(test)]
mod tests;

pub use allocated_devices::{check_allocated_devices, not_allocated_fault};
pub use attachment::fault_in_network;
pub use ip_requests::AttachmentIpRequests;
pub use plan::{PlanOutput, build_plan, partition_requests};
