//! The leader of the cluster daemons, and signals to it.

use crate::{eventually, for_each_daemon, kubectl_get};

/// The pod that holds the leader lease.
pub fn leader_pod() -> String {
    let lease = kubectl_get(&["-n", "ferroband-system", "lease", "ferroband-cluster"]);
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_string()
}

/// Kills the leader with SIGKILL. Its container restarts and may become leader again at once.
pub fn kill_leader() {
    signal_replica(&leader_pod(), "KILL");
}

/// A replica of the cluster daemon that was stopped with SIGSTOP. It continues when this value is dropped, also if the
/// test fails: a replica that stays stopped would disturb the tests that follow.
pub struct StoppedReplica {
    pub pod: String,
}

/// Stops the leader with SIGSTOP.
pub fn stop_leader() -> StoppedReplica {
    let pod = leader_pod();
    signal_replica(&pod, "STOP");
    StoppedReplica { pod }
}

impl Drop for StoppedReplica {
    fn drop(&mut self) {
        signal_replica(&self.pod, "CONT");
    }
}

/// Sends one replica a signal. Both may run on the same node, so the process is found by the name of its pod.
fn signal_replica(pod: &str, signal: &str) {
    let object = kubectl_get(&["-n", "ferroband-system", "pod", pod]);
    let node = object["spec"]["nodeName"].as_str().expect("it is on a node").to_string();
    let act = format!(
        "tr '\\0' '\\n' < $p/environ | grep -qx 'POD_NAME={pod}' && kill -{signal} $pid && echo $pid"
    );
    // A replica that was killed just now may still be the leader according to the lease while its container restarts.
    eventually(&format!("a process of {pod} on {node}"), 30, || {
        match for_each_daemon(&node, "cluster", &act).lines().count() {
            1 => Ok(()),
            found => Err(format!("{found} processes")),
        }
    });
}
