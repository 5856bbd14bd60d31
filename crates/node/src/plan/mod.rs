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

pub use chosen::ResolvedNetwork;
pub use default_network::{DefaultNetwork, find_default_network, find_network_by_name, read_default_network};
pub use ipam::IpamSource;
pub use legacy::WhereaboutsLegacy;
pub use make::{
    DefaultNetworkChoice, PlanInput, PlanOutput, RequestedNetworks, build_plan, find_interface,
    requested_networks, resolve_uid,
};
pub use policy::NetworkAccessPolicy;
pub use step::fault_in_network;
pub use wanted::AttachmentIpRequests;
