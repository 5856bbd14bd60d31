//! Builds the plan of a pod: its interfaces and the plugin that creates each.
//!
//! ```text
//! pod annotations ──▶ RequestedNetworks ──▶ definitions ──▶ ResolvedNetwork ─┐
//! etc/cni/net.d ──▶ DefaultNetwork ──────────────────────────────────────────┼─▶ build_plan ──▶ Plan
//! kubelet ──▶ PodDevices ────────────────────────────────────────────────────┤       └────────▶ AttachmentIpRequests
//! runtimeConfig of the call ─────────────────────────────────────────────────┘
//! ```
//!
//! Plans are computed from API objects and configuration files only, without requests to the API server,
//! access to the kernel, or a clock.

mod attachment;
mod capability;
mod chosen;
mod default_network;
mod ipam;
mod legacy;
mod make;
mod partition;
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
