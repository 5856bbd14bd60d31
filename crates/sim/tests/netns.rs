//! Simulated hardware on the running kernel: each test in network namespaces of its own, seen by `ip` and
//! `ping`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "netns/bench.rs"]
mod bench;
#[path = "netns/children.rs"]
mod children;
#[path = "netns/fabric.rs"]
mod fabric;
#[path = "netns/functions.rs"]
mod functions;
#[path = "netns/hardware.rs"]
mod hardware;
#[path = "netns/spaces.rs"]
mod spaces;
#[path = "netns/watching.rs"]
mod watching;
