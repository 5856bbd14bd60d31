//! From a pod to a plan: which interfaces it gets, and who makes each.
//!
//! ```text
//! pod annotation ──▶ selections ──▶ definitions ─┐
//! etc/cni/net.d ──▶ default network ─────────────┼─▶ make ──▶ Plan (carried out by ferroband-cni)
//! runtimeConfig of the call ─────────────────────┘      └───▶ Wanted (addresses to assign meanwhile)
//! ```
//!
//! All of it is a function of objects: no cluster, no kernel, no clock.

mod capability;
mod default_network;
mod make;
mod step;
#[cfg(test)]
mod tests;

pub use default_network::{DefaultNetwork, first};
pub use make::{Given, Planned, Wanted, make, selections, settle_uid};
pub use step::within;
