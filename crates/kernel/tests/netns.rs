//! Route netlink on the running kernel: each test in a network namespace of its own, seen by `ip`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "netns/adapters.rs"]
mod adapters;
#[path = "netns/addresses.rs"]
mod addresses;
#[path = "netns/ethernet_probe.rs"]
mod ethernet_probe;
#[path = "netns/events.rs"]
mod events;
#[path = "netns/fixture.rs"]
mod fixture;
#[path = "netns/infiniband_probe.rs"]
mod infiniband_probe;
#[path = "netns/links.rs"]
mod links;
#[path = "netns/namespaces.rs"]
mod namespaces;
#[path = "netns/routes.rs"]
mod routes;
#[path = "netns/without_infiniband.rs"]
mod without_infiniband;
