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
mod choose;
mod config;
mod glob;
mod ips;
mod pool;
mod selector;
mod validate;

pub use affinity::{Affinity, Unfit};
pub use annotation::{AnnotatedRoute, ROUTES, Wish};
pub use choose::{Choice, Family2, Nic, Surroundings};
pub use config::Config;
pub use ips::{count, parse_ips, write_ips};
pub use pool::{Description, IpPool, State};
pub use selector::{Expression, Operator, Selector};
pub use validate::{Conflict, conflicts};

#[cfg(test)]
mod tests;
