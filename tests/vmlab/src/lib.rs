//! Scenarios on a cluster whose nodes are emulated machines with the kernel's own InfiniBand: what they share.
//!
//! ```text
//! cargo xtask test vmlab ── lab up --kernel vm --install ──▶ this crate's tests, one at a time ──▶ lab down
//!     node1, node2: kubelet, containerd, two adapters each, one fabric; opensm on node1
//! ```
//!
//! Everything is slow there: an emulated processor on a busy host. Limits are for that.

pub mod perftest;
pub mod sriov;

use ferroband_cluster_tests::{eventually, exec_in_pod, exec_on, kubectl};
use std::io::{Write, stderr};

/// Seconds within which a pod runs, on a host that is busy with other things.
pub const POD_TIMEOUT: u64 = 400;

/// A pod of the tools image on a node, with annotations and resources as YAML flow mappings.
pub fn pod_manifest(name: &str, node: &str, annotations: &str, limits: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{annotations}}}}}, \
         spec: {{nodeName: {node}, terminationGracePeriodSeconds: 0, \
         containers: [{{name: c, image: \"ferroband.lab/tools:1\", securityContext: {{capabilities: {{add: [IPC_LOCK]}}}}, \
         resources: {{limits: {{{limits}}}}}}}]}}}}"
    )
}

/// A command in a pod that must succeed in the end: carriers, partitions and neighbours take a moment.
#[track_caller]
pub fn exec_eventually(pod: &str, seconds: u64, script: &str) -> String {
    eventually(&format!("{pod}: {script}"), seconds, || {
        let outcome = exec_in_pod(pod, script);
        if outcome.ok { Ok(outcome.out) } else { Err(format!("{}{}", outcome.out, outcome.err)) }
    })
}

/// What a node's kernel complained about: oopses, warnings, hung tasks; nothing, if all is well. One warning is the
/// kernel's own (rdmavt of 6.1).
pub fn kernel_complaints(node: &str) -> String {
    let bad = "BUG:|WARNING: CPU|Oops|general protection|unable to handle|refcount_t:|blocked for more than|Out of memory";
    exec_on(node, &format!("dmesg | grep -E '{bad}' | grep -v rdmavt/qp.c; true")).stdout_or_panic()
}

/// For whoever runs the tests to see: past the harness, which keeps what tests print to itself.
pub fn print_past_harness(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// Why a pod is not there yet, for a failure's text.
pub fn describe_pod(pod: &str) -> String {
    kubectl(&["describe", "pod", pod]).out
}
