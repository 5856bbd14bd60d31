//! Partition memberships of this node's pods.
//!
//! ```text
//! ADD: begin_add ── PodPartitionRequest ──▶ NodePartitionsState ──▶ NodePartitions (object of this node)
//!                                                                      └──▶ cluster daemon ──▶ subnet manager
//!      wait_until_member ◀── the port's P_Key table (sysfs) ◀──────────────────────────────────────┘
//! DEL: remove_sandbox ──▶ NodePartitionsState ──▶ …
//!
//! requested GUID: RequestedGuids ──▶ GuidBlock, until the sandbox is gone and the function has its own GUID
//! ```
//!
//! The port's P_Key table is authoritative. If the host cannot see it, because the device is in the pod's network
//! namespace, the status of NodePartitions is used instead.

mod guid_claims;
mod guid_leases;
mod membership;
mod node_partitions_state;
mod node_partitions_sync;
mod ports;
mod requested_guids;

pub use guid_claims::GuidClaimClient;
pub use guid_leases::GuidLease;
pub use membership::NodePartitionMembership;
pub use node_partitions_sync::NodePartitionsSync;
pub use requested_guids::{GuidRequests, RequestedGuids};
