//! What needs root: network namespaces, device files, simulated hardware.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "netns/configure.rs"]
mod configure;
#[path = "netns/counters.rs"]
mod counters;
#[path = "netns/evidence.rs"]
mod evidence;
#[path = "netns/knem.rs"]
mod knem;
#[path = "netns/machine.rs"]
mod machine;
#[path = "netns/opensm.rs"]
mod opensm;
#[path = "netns/signs.rs"]
mod signs;
