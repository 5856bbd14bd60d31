//! The leader of the cluster daemons, and signals to it.

use crate::{for_each_daemon, kubectl_get};

/// The pod that holds the leader lease.
pub fn leader_pod() -> String {
    let lease = kubectl_get(&["-n", "ferroband-system", "lease", "ferroband-cluster"]);
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_string()
}

/// Kills the leader with SIGKILL. Its container restarts and may become leader again at once.
pub fn kill_leader() {
    signal_leader("KILL");
}

/// Sends the leader a signal and returns its node.
pub fn signal_leader(signal: &str) -> String {
    let name = leader_pod();
    let pod = kubectl_get(&["-n", "ferroband-system", "pod", &name]);
    let node = pod["spec"]["nodeName"].as_str().expect("it is on a node").to_string();
    signal_cluster_daemon(&node, signal);
    node
}

/// Sends the cluster daemon on a node a signal.
pub fn signal_cluster_daemon(node: &str, signal: &str) {
    for_each_daemon(node, "cluster", &format!("kill -{signal} $pid"));
}
