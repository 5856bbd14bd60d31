//! From a pod to a plan: which interfaces it gets, and who makes each.
//!
//! ```text
//! pod annotations ──▶ Asked ──▶ definitions ──▶ Chosen ─┐
//! etc/cni/net.d ──▶ default network ────────────────────┼─▶ make ──▶ Plan (carried out by ferroband-cni)
//! kubelet ──▶ devices ──────────────────────────────────┤      └───▶ Wanted (addresses to assign meanwhile)
//! runtimeConfig of the call ────────────────────────────┘
//! ```
//!
//! All of it is a function of objects and files: no cluster, no kernel, no clock.

mod attachment;
mod capability;
mod chosen;
mod default_network;
mod ipam;
mod legacy;
mod make;
mod policy;
mod route;
mod step;
#[cfg(test)]
mod tests;
mod wanted;

pub use chosen::Chosen;
pub use default_network::{DefaultNetwork, at, first, named};
pub use ipam::Ipam;
pub use legacy::Legacy;
pub use make::{Asked, DefaultChoice, Given, Planned, interface_of, make, selections, settle_uid};
pub use policy::Policy;
pub use step::within;
pub use wanted::Wanted;
