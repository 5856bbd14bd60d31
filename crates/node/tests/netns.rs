//! Tests of the node daemon that use network namespaces, device files or simulated hardware. Most need root.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

#[path = "netns/configure.rs"]
mod configure;
#[path = "netns/evidence.rs"]
mod evidence;
#[path = "netns/hw_events.rs"]
mod hw_events;
#[path = "netns/knem.rs"]
mod knem;
#[path = "netns/metrics.rs"]
mod metrics;
#[path = "netns/opensm.rs"]
mod opensm;
#[path = "netns/simulated_host.rs"]
mod simulated_host;
