//! Partitions of the fabric: which GUIDs there are, which of them is a member of which P_Key, and the subnet
//! manager that makes it so.
//!
//! A partition is what keeps tenants apart on InfiniBand, so the rules are few and strict: what is wanted and
//! what the subnet manager has are two tables, and only their difference is ever sent; only what is ours is
//! ever touched; and a request whose outcome is not known counts as neither done nor undone.
//!
//! ```text
//! GuidRange ──cluster's id──▶ Share ──granules of 256──▶ GUIDs that functions keep, where the administrator named a range,
//!                                                       and those that pods ask for, while they have them
//!
//! wanted (from the nodes' objects) ┐
//!                                  ├─ diff ─▶ Programmer ─▶ batches ─▶ SubnetManager ─┬─ ufm     REST
//! seen (what the manager lists)  ──┘   ▲   backoff, deadlines                         ├─ opensm  partitions.conf
//!                                      └────── outcome, list ◀────────────────────────┴─ none
//! ```
//!
//! Pure except for the managers themselves, which are the only part of the product that speaks HTTP to a
//! fabric. What is durable lies in the API server, and everything here is rebuilt from that and the fabric.

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
mod pkey_base;
mod reconcile_loop;
mod reconciler;
mod settings;
mod subnet_manager;
pub mod ufm;

pub use backoff::Backoff;
pub use cluster_slice::ClusterSlice;
pub use error::{Error, RequestOutcome, SettingError};
pub use guid_block::{
    GUID_BLOCK_SIZE, GuidBlockClaims, GuidBlockUpdate, GuidOwner, block_name, block_start, choose_guid,
    claim_guid, release_guid,
};
pub use guid_range::{GuidRange, parse_guid};
pub use membership::Membership;
pub use membership_table::MembershipTable;
pub use ownership::Ownership;
pub use partition_change::{PartitionChange, diff};
pub use pkey_base::{InvalidPKey, PKeyBase, PKeyRange};
pub use reconcile_loop::{ReconcilerHandle, SubnetManagerHealth, run_reconciler};
pub use reconciler::{MembershipState, PartitionReconciler};
pub use settings::{PartitionSettings, SmPlugin};
pub use subnet_manager::{FabricReport, NoopSubnetManager, PartitionBatch, RateLimits, SubnetManager};
