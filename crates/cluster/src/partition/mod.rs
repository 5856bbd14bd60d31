//! Partitions: the subnet manager is made to have what the nodes' objects say.
//!
//! ```text
//! NodePartitions (one for each node) ┐
//! Partition (P_Key → namespaces)     ├─ wanted ─▶ Programmer ─▶ UFM | opensm | none
//! Node (is it there?)                ┘               │
//! Secret, ConfigMap of ib-kubernetes ─ choice ───────┘
//!                     NodePartitions.status, Fabric, conditions ◀── what stands, what waits, why
//! ```
//!
//! Nothing is kept here that is not rebuilt: what is wanted comes from the nodes' objects, what is there from the manager,
//! and what of it is ours from the claims of the nodes and from `status.placed`, which is written before it is done.

mod backend;
mod caches;
mod desired;
mod fabric_status;
mod guid_claims;
mod node_status;
mod opensm_host;
mod reconcile;

pub use reconcile::PartitionController;
