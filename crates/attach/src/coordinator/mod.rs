//! The pod's ways to the node, to services and to the pods of the cluster's own network, when its default network is
//! InfiniBand: what the plugin `coordinator` does.
//!
//! ```text
//!            pod                                         node
//!  eth0 ── InfiniBand ──▶ everything else     ┌─ rule 1000: table 500, route POD-IP dev veth4f2a…
//!  veth0 ─────────────────────────────────────┴─ veth4f2a… ──▶ kubelet, kube-proxy, cni0 …
//!   routes: the node's addresses, the pods' and the services' subnets, what else is hijacked
//!   marks:  what came in through veth0 is answered through it, from wherever it came
//! ```
//!
//! Underlay is the above, for the first interface. Overlay is an interface beside that of the cluster's own network,
//! which has all those ways already. In both, an interface that is not the first has a routing table of its own, so that
//! what was sent to its address is answered through it.

mod config;
mod join;
mod leave;
mod tables;

pub(crate) use config::parse_config;
pub(crate) use join::CoordinatorSetup;
pub(crate) use leave::{check, teardown};

/// The pod's end of the wire.
const POD_VETH: &str = "veth0";
/// The place of the rule that leads to the table of the pods' routes.
const HOST_RULE_PRIORITY: u32 = 1000;
/// The pod's table of what goes back through the wire, and the first of the interfaces' own.
const RETURN_TABLE: u32 = 100;
const FIRST_TABLE: u32 = 101;

/// The mark of connections that came through the wire.
const RETURN_MARK: u32 = 1;

/// The priority of the way to everything through the node: any other comes before it.
const FALLBACK_METRIC: u32 = 1 << 16;

/// What the node's end of a container's wire is called.
pub(crate) fn host_veth_name(container: &str) -> String {
    format!("veth{}", container.chars().take(11).collect::<String>())
}
