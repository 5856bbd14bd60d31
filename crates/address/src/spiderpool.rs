//! Spiderpool front end: pools are API objects, and annotations select them.
//!
//! ```text
//! SpiderIPPool, SpiderReservedIP ──▶ IpPool ────────────┐
//! annotations of the pod  ─┐                            │
//! annotations of its namespace ├─▶ PoolPreference ──▶ PoolSelection: eligible pools per family, in order
//! the `ipam` object        │      of the first level    │              └─▶ requests, routes
//! pools with `default: true` ─┘    that names a pool    └ affinity of each pool; a reason if it is not eligible
//! ```
//!
//! The first level that names a pool decides alone, even if none of its pools is eligible: a pod that requests a
//! pool by name must not silently get an address from another pool.

mod affinity;
mod annotation;
mod config;
mod conflict;
mod glob;
mod ip_list;
mod ip_pool;
mod pool_selection;

pub use affinity::{IneligibleReason, LabelMatcher, LabelOperator, LabelRequirement, PoolAffinity};
pub use annotation::{AnnotatedRoute, PoolPreference, ROUTES_ANNOTATION};
pub use config::SpiderpoolConfig;
pub use conflict::{PoolConflict, find_conflicts};
pub use ip_list::parse_ips;
pub use ip_pool::{IpPool, IpPoolSpec, IpPoolState};
pub use pool_selection::{PerFamily, PodNic, PoolSelection, PoolSelectionContext};

#[cfg(test)]
mod tests;
