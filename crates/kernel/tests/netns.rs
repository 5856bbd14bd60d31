//! Route netlink on the running kernel: each test in a network namespace of its own, seen by `ip`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "netns/adapters.rs"]
mod adapters;
#[path = "netns/addresses.rs"]
mod addresses;
#[path = "netns/bench.rs"]
mod bench;
#[path = "netns/infiniband.rs"]
mod infiniband;
#[path = "netns/infiniband_wire.rs"]
mod infiniband_wire;
#[path = "netns/links.rs"]
mod links;
#[path = "netns/namespaces.rs"]
mod namespaces;
#[path = "netns/probing.rs"]
mod probing;
#[path = "netns/routes.rs"]
mod routes;
#[path = "netns/watching.rs"]
mod watching;
