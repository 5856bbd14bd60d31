//! Who leads, and how it ends.

use crate::{for_each_daemon, kubectl_get};

/// The pod that holds the lease.
pub fn leader_pod() -> String {
    let lease = kubectl_get(&["-n", "ferroband-system", "lease", "ferroband-cluster"]);
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_string()
}

/// Kill the leader's process, without a word. Its container is started again, and may lead again at once.
pub fn kill_leader() {
    signal_leader("KILL");
}

/// Send the leader's process a signal, and tell where that was.
pub fn signal_leader(signal: &str) -> String {
    let name = leader_pod();
    let pod = kubectl_get(&["-n", "ferroband-system", "pod", &name]);
    let node = pod["spec"]["nodeName"].as_str().expect("it is on a node").to_string();
    signal_cluster_daemon(&node, signal);
    node
}

/// Send a node's cluster daemon a signal.
pub fn signal_cluster_daemon(node: &str, signal: &str) {
    for_each_daemon(node, "cluster", &format!("kill -{signal} $pid"));
}
