//! Attaches real network namespaces and verifies them with `ip -j`. Needs root.
//!
//! Each test has separate network namespaces for "the host" (its own thread) and for pods. InfiniBand is
//! simulated with veth pairs ([`veth_fabric::VethFabric`]), and the node daemon is a thread
//! ([`scripted_daemon::ScriptedDaemon`]).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "netns/check_status_gc.rs"]
mod check_status_gc;
#[path = "netns/coordinator.rs"]
mod coordinator;
#[path = "netns/coordinator_foreign.rs"]
mod coordinator_foreign;
#[path = "netns/coordinator_hostile.rs"]
mod coordinator_hostile;
#[path = "netns/crash.rs"]
mod crash;
#[path = "netns/disk_full.rs"]
mod disk_full;
#[path = "netns/failures.rs"]
mod failures;
#[path = "netns/fixture.rs"]
mod fixture;
#[path = "netns/ib_sriov.rs"]
mod ib_sriov;
#[path = "netns/ipoib.rs"]
mod ipoib;
#[path = "netns/meta_plugin.rs"]
mod meta_plugin;
#[path = "netns/multus_state.rs"]
mod multus_state;
#[path = "netns/network_options.rs"]
mod network_options;
#[path = "netns/newer_journal.rs"]
mod newer_journal;
#[path = "netns/own_plugin_pkey.rs"]
mod own_plugin_pkey;
#[path = "netns/plain_pods.rs"]
mod plain_pods;
#[path = "netns/rdma.rs"]
mod rdma;
#[path = "netns/scripted_daemon.rs"]
mod scripted_daemon;
#[path = "netns/sim_host.rs"]
mod sim_host;
#[path = "netns/veth_fabric.rs"]
mod veth_fabric;
#[path = "netns/whereabouts.rs"]
mod whereabouts;
