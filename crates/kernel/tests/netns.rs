//! Tests of netlink on the running kernel, each in its own network namespace and compared with the output of `ip`.

#![expect(clippy::unwrap_used, reason = "a failed setup step ends the test")]

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
