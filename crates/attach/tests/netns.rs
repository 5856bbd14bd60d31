//! Attaching real network namespaces, judged with `ip -j`. Needs root.
//!
//! Each test has a network namespace of its own for "the host" (on its own thread) and others for pods. The
//! InfiniBand of [`fabric::Fabric`] is made of veth pairs, the node daemon of [`daemon::Daemon`] is a thread.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "netns/crash.rs"]
mod crash;
#[path = "netns/daemon.rs"]
mod daemon;
#[path = "netns/fabric.rs"]
mod fabric;
#[path = "netns/functions.rs"]
mod functions;
#[path = "netns/ipoib.rs"]
mod ipoib;
#[path = "netns/lent.rs"]
mod lent;
#[path = "netns/meta.rs"]
mod meta;
#[path = "netns/networks.rs"]
mod networks;
#[path = "netns/rack.rs"]
mod rack;
#[path = "netns/shortage.rs"]
mod shortage;
#[path = "netns/stage.rs"]
mod stage;
#[path = "netns/trouble.rs"]
mod trouble;
#[path = "netns/upkeep.rs"]
mod upkeep;
#[path = "netns/upstream.rs"]
mod upstream;
#[path = "netns/ways.rs"]
mod ways;
#[path = "netns/whereabouts.rs"]
mod whereabouts;
