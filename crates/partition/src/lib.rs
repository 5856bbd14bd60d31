//! GUID allocation, partition memberships, and the subnet managers that program them.
//!
//! Partitions isolate tenants on InfiniBand, so the rules are strict. Desired and observed memberships are two tables,
//! and only their difference is sent. Only memberships that Ferroband owns are changed. A request with an unknown
//! outcome counts as neither applied nor failed.
//!
//! ```text
//! GuidRange ──cluster ID──▶ ClusterSlice ──GuidBlocks──▶ GUIDs of virtual functions (if a range is configured)
//!                                                        GUIDs that pods request
//!
//! desired (NodePartitions) ───┐
//!                             ├─ diff ─▶ PartitionReconciler ─▶ batches ─▶ SubnetManager ─┬─ ufm     REST
//! observed (manager's list) ──┘   ▲      backoff, deadlines                               ├─ opensm  partitions.conf
//!                                 └─────────── outcome, list ◀────────────────────────────┴─ none
//! ```
//!
//! Everything is pure except for the SubnetManager implementations and the loop that drives them. Durable state is in
//! API objects. The state in this crate is rebuilt from them and from the subnet manager.

mod answer_check;
mod backoff;
mod cluster_slice;
mod error;
mod guid_block;
mod guid_range;
mod membership;
mod membership_table;
pub mod opensm;
mod ownership;
mod partition_change;
mod pod_membership;
mod reconcile_loop;
mod reconciler;
mod settings;
mod subnet_manager;
pub mod ufm;

pub use answer_check::DoubtfulAnswer;
pub use backoff::Backoff;
pub use cluster_slice::ClusterSlice;
pub use error::{Error, RequestOutcome, SettingError};
pub use ferroband_model::{InvalidPKey, PKeyRange, RequestedPKey};
pub use guid_block::{
    GUID_BLOCK_SIZE, GuidBlockClaims, GuidBlockUpdate, GuidOwner, block_name, block_start, choose_guid,
    claim_guid, release_guid,
};
pub use guid_range::{GuidRange, parse_guid};
pub use membership::Membership;
pub use membership_table::MembershipTable;
pub use ownership::Ownership;
pub use partition_change::{PartitionChange, diff};
pub use pod_membership::{PartitionMembership, SandboxPartitions};
pub use reconcile_loop::{ReconcilerHandle, SubnetManagerHealth, run_reconciler};
pub use reconciler::{MembershipState, PartitionReconciler};
pub use settings::{PartitionSettings, SmPlugin};
pub use subnet_manager::{FabricReport, NoopSubnetManager, PartitionBatch, RateLimits, SubnetManager};
