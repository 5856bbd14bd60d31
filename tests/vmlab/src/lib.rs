//! Shared helpers of the scenarios on a cluster of emulated machines with the kernel's InfiniBand stack.
//!
//! ```text
//! cargo xtask test vmlab ── lab up --kernel vm --install ──▶ this crate's tests, one at a time ──▶ lab down
//!     node1, node2: kubelet, containerd, two adapters each, one fabric; opensm on node1
//! ```
//!
//! Time limits allow for an emulated processor on a busy host.

pub mod perftest;
pub mod sriov;

use ferroband_cluster_tests::{eventually, exec_in_pod, exec_on, kubectl};
use std::io::{Write, stderr};

/// Seconds until a pod must run, on a busy host.
pub const POD_TIMEOUT: u64 = 400;

/// A pod with the tools image on a node; annotations and limits are contents of YAML flow mappings.
pub fn pod_manifest(name: &str, node: &str, annotations: &str, limits: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{annotations}}}}}, \
         spec: {{nodeName: {node}, terminationGracePeriodSeconds: 0, \
         containers: [{{name: c, image: \"ferroband.lab/tools:1\", securityContext: {{capabilities: {{add: [IPC_LOCK]}}}}, \
         resources: {{limits: {{{limits}}}}}}}]}}}}"
    )
}

/// Runs a command in a pod until it succeeds: carrier, partitions and neighbours take a moment.
#[track_caller]
pub fn exec_eventually(pod: &str, seconds: u64, script: &str) -> String {
    eventually(&format!("{pod}: {script}"), seconds, || {
        let outcome = exec_in_pod(pod, script);
        if outcome.ok { Ok(outcome.out) } else { Err(format!("{}{}", outcome.out, outcome.err)) }
    })
}

/// Oopses, warnings and hung tasks in a node's kernel log, except a known warning of rdmavt in 6.1.
pub fn kernel_complaints(node: &str) -> String {
    let bad = "BUG:|WARNING: CPU|Oops|general protection|unable to handle|refcount_t:|blocked for more than|Out of memory";
    exec_on(node, &format!("dmesg | grep -E '{bad}' | grep -v rdmavt/qp.c; true")).stdout_or_panic()
}

/// Prints to standard error directly: the test harness captures `println!`.
pub fn print_past_harness(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// `kubectl describe` of a pod, for failure messages.
pub fn describe_pod(pod: &str) -> String {
    kubectl(&["describe", "pod", pod]).out
}
