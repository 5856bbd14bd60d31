//! Tests of simulated hardware on the running kernel. Each test uses its own network namespaces, and checks
//! the results with `ip` and `ping`.

#![expect(clippy::unwrap_used, reason = "a failed setup step ends the test")]

#[path = "netns/events.rs"]
mod events;
#[path = "netns/fabric.rs"]
mod fabric;
#[path = "netns/fixture.rs"]
mod fixture;
#[path = "netns/hardware.rs"]
mod hardware;
#[path = "netns/ipoib_children.rs"]
mod ipoib_children;
#[path = "netns/rdma_netns.rs"]
mod rdma_netns;
#[path = "netns/virtual_functions.rs"]
mod virtual_functions;
