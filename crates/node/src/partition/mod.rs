//! Partitions on the node: who of its pods shall be in which, and waiting until it is so.
//!
//! ```text
//! ADD: begin ── asked ──▶ Book ──writer──▶ NodePartitions (this node's object) ──▶ cluster daemon ──▶ subnet manager
//!      await_member ◀── the port's own P_Key table (sysfs) ◀──────────────────────────────────────────┘
//! DEL: end ──▶ Book ──▶ …
//!
//! a GUID that a pod asks for: Guids ── Claims ──▶ GuidBlock, until the sandbox is gone and the function has its own again
//! ```
//!
//! The port's table decides. Where the host cannot see it, because the device is in the pod's namespace, the cluster
//! daemon's word that the subnet manager has it does.

mod guid_claims;
mod guid_lease_manager;
mod guid_leases;
mod membership;
mod node_partitions_state;
mod node_partitions_sync;
mod ports;
mod request;

pub use guid_claims::GuidClaimClient;
pub use guid_lease_manager::GuidLeaseManager;
pub use membership::NodePartitionMembership;
pub use node_partitions_sync::NodePartitionsSync;
pub use request::{PodPartitionRequest, RequestedPort};
