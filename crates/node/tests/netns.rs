//! Tests that need root: network namespaces, device files, simulated hardware.

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
