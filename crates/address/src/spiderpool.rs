//! Spiderpool's way of choosing addresses: pools are objects, and annotations say which to use.
//!
//! ```text
//! SpiderIPPool, SpiderReservedIP ──▶ IpPool ────────────┐
//! annotations of the pod  ─┐                            │
//! annotations of its namespace ├─▶ Wish (one level) ──▶ choose ──▶ Choice: candidates of each family, in order
//! the `ipam` object        │      first that says       │              └─▶ requests, routes
//! pools with `default: true` ─┘    anything             └ affinities of each pool, with the reason if it is out
//! ```
//!
//! The first level that says anything decides alone, even if none of its pools can be used: a pod that asks for a
//! pool by name must not silently land in another.

mod affinity;
mod annotation;
mod config;
mod conflict;
mod glob;
mod ip_list;
mod ip_pool;
mod label_matcher;
mod pool_selection;

pub use affinity::{IneligibleReason, PoolAffinity};
pub use annotation::{AnnotatedRoute, PoolPreference, ROUTES_ANNOTATION};
pub use config::SpiderpoolConfig;
pub use conflict::{PoolConflict, find_conflicts};
pub use ip_list::{count_ips, format_ips, parse_ips};
pub use ip_pool::{IpPool, IpPoolSpec, IpPoolState};
pub use label_matcher::{LabelMatcher, LabelOperator, LabelRequirement};
pub use pool_selection::{PerFamily, PodNic, PoolSelection, PoolSelectionContext};

#[cfg(test)]
mod tests;
