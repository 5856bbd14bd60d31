//! Partition controller: programs the memberships of all nodes into the subnet manager.
//!
//! ```text
//! NodePartitions (one for each node) ┐
//! Partition (P_Key → namespaces)     ├─ desired ─▶ PartitionReconciler ─▶ UFM | opensm | none
//! Node (exists? out of service?)     ┘                 │
//! Secret, ConfigMap of ib-kubernetes ─ backend ────────┘
//!                     NodePartitions.status, Fabric, conditions ◀── programmed, pending, rejected
//! ```
//!
//! The controller keeps no state that it cannot rebuild: desired members come from the nodes' objects, actual members
//! from the subnet manager, and ownership from `status.placed`, which is written before a member is added and kept until
//! its removal is confirmed.

mod backend;
mod caches;
mod desired;
mod fabric_status;
mod guid_claims;
mod node_status;
mod opensm_host;
mod partition_status;
mod pkey_quota;
mod reconcile;
mod records;
mod rules;
mod written_statuses;

pub use reconcile::PartitionController;
