//! First stage of an ADD: finds everything that the plan of a pod is computed from, and returns it as one value.
//!
//! ```text
//! pod annotations ──▶ RequestedNetworks ──▶ definitions ──▶ ResolvedNetwork ─┐
//! etc/cni/net.d ──▶ DefaultNetwork ──────────────────────────────────────────┤
//! kubelet ──▶ PodDevices ────────────────────────────────────────────────────┼─▶ ResolvedAdd ──▶ build
//! copies of SpiderIPPools ──▶ ResolvedPod ───────────────────────────────────┤
//! runtimeConfig of the call ─────────────────────────────────────────────────┘
//! ```
//!
//! A foreign plugin that uses Ferroband as its IPAM plugin takes the same path, to a [`ResolvedInterface`].

mod access_policy;
mod default_network;
mod networks;
mod plugin_policy;
mod requested_networks;
mod resolver;

pub use access_policy::NetworkAccessPolicy;
pub use default_network::{CONFLIST, DefaultNetwork, find_default_network, read_default_network};
pub use networks::{DefaultNetworkChoice, ResolvedNetwork};
pub use plugin_policy::{PluginPolicy, plugin_types};
pub use requested_networks::{RequestedNetworks, requested_networks, resolve_uid};
pub use resolver::{PodResolver, ResolvedAdd, ResolvedInterface, ResolvedPod};
