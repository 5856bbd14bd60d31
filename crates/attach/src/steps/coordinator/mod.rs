//! The `coordinator` plugin: routes to the node, to services and to pods of the cluster network, for pods whose default
//! network is InfiniBand.
//!
//! ```text
//!            pod                                         node
//!  eth0 ── InfiniBand ──▶ everything else     ┌─ rule 1000: table 500, route POD-IP dev veth4f2a…
//!  veth0 ─────────────────────────────────────┴─ veth4f2a… ──▶ kubelet, kube-proxy, cni0 …
//!   routes: the node's addresses, the pod and service subnets, and the hijacked subnets
//!   marks:  connections that came in through veth0 are answered through it, whatever their source
//! ```
//!
//! Underlay mode is shown above, for the first interface. In overlay mode the interface is additional to the one of the
//! cluster network, which already has these routes. In both modes every interface but the first has its own routing
//! table, so that packets sent to its address are answered through it.

mod host_routes;
mod routing_tables;
mod setup;
mod teardown;

pub(crate) use setup::CoordinatorSetup;
pub(crate) use teardown::{check, teardown};

/// The pod's end of the veth pair.
const POD_VETH: &str = "veth0";
/// Priority of the node's policy routing rule that selects the table with the routes to pods.
const HOST_RULE_PRIORITY: u32 = 1000;
/// The pod's routing table for replies through the veth or, in overlay mode, through eth0.
const RETURN_TABLE: u32 = 100;
/// First of the pod's per-interface routing tables.
const FIRST_TABLE: u32 = 101;

/// Connection mark (conntrack) of connections that came in through the veth.
const RETURN_MARK: u32 = 1;

/// Metric of the default route through the node: any other default route is preferred.
const FALLBACK_METRIC: u32 = 1 << 16;

/// Name of the node's end of a container's veth pair: `veth` and the first 11 characters of the container ID.
pub(crate) fn host_veth_name(container: &str) -> String {
    format!("veth{}", container.chars().take(11).collect::<String>())
}
