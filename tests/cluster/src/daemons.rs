//! The daemons' processes on a machine of the lab, found by their command line.

use crate::exec_on;

/// Runs a shell command for each process of `ferroband WHICH` on the machine and returns the output. `$p` is the
/// process's folder in /proc, `$pid` its PID.
#[track_caller]
pub fn for_each_daemon(machine: &str, which: &str, act: &str) -> String {
    let script = format!(
        "for p in /proc/[0-9]*; do pid=${{p#/proc/}}; tr '\\0' ' ' < $p/cmdline 2>/dev/null | \
         grep -q '^/usr/bin/ferroband {which} ' && {{ {act}; }}; done; true"
    );
    exec_on(machine, &script).stdout_or_panic()
}

/// Kills the node daemon with SIGKILL; the kubelet restarts it.
#[track_caller]
pub fn kill_node_daemon(node: &str) {
    for_each_daemon(node, "node", "kill -9 $pid");
}
