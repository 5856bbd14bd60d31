//! Shared helpers of the scenarios on a real cluster.
//!
//! ```text
//! cargo xtask test cluster ── lab up ──▶ this crate's tests, one at a time ──▶ lab down
//!                                          │ FERROBAND_LAB: its name
//!                                          └─ ferroband_lab: kubectl, exec on a node, reboot
//! ```
//!
//! A test panics with the observed state on failure. It leaves the lab healthy and removes its objects.

mod api_client;
pub mod cni_folder;
mod daemons;
mod document;
pub mod fabric;
pub mod hardened;
pub mod hardware;
pub mod ibsim;
pub mod inspect;
pub mod ip_pools;
pub mod ipam_caller;
pub mod leader;
pub mod legacy_stack;
pub mod node_account;
mod objects;
pub mod opensm_mounts;
mod own_lab;
pub mod shared_fixture;
pub mod tenants;
mod vmlab_only;
mod wait;
pub mod whereabouts_binary;

pub use api_client::{kubectl_get, try_get};
pub use daemons::{for_each_daemon, kill_node_daemon};
pub use document::{RDMA_INFINIBAND_EXAMPLES, document_manifests, document_yaml, read_example};
pub use objects::{
    TestObjects, network_definition, pod_with_annotations, pod_with_networks, wait_network_definition,
    wait_pod_ready, wait_pods_ready,
};
pub use own_lab::{lab_cli, lab_program, start_bare_lab, start_own_lab, up_lab};
pub use vmlab_only::note_vmlab_only;
pub use wait::{eventually, holds_for};

use ferroband_lab::cluster::Lab;
use std::io::Write;
use std::process::{Command, Stdio};

/// Result of a lab command.
#[derive(Debug)]
pub struct LabOutput {
    /// Exit code 0.
    pub ok: bool,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl LabOutput {
    /// Standard output of a command that must succeed.
    #[track_caller]
    pub fn stdout_or_panic(self) -> String {
        assert!(self.ok, "command failed:\n{}{}", self.out, self.err);
        self.out
    }
}

/// The lab under test.
pub fn current_lab() -> Lab {
    let name = own_lab::name().or_else(|| std::env::var("FERROBAND_LAB").ok());
    let name = name.expect("FERROBAND_LAB is not set: run this with `cargo xtask test cluster`");
    Lab::named(&name).unwrap_or_else(|error| panic!("{error:#}"))
}

/// A command on a machine of the lab, not yet started.
#[track_caller]
pub fn machine_command(machine: &str, args: &[&str]) -> Command {
    let mut command = current_lab().exec(machine).unwrap_or_else(|error| panic!("{error:#}"));
    command.args(args);
    command
}

/// Cuts a node's power and starts it again.
#[track_caller]
pub fn reboot_node(node: &str) {
    lab_program();
    ferroband_lab::cluster::reboot(&current_lab(), node).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Runs the ferroband CLI as administrator.
pub fn ferroband(args: &[&str]) -> LabOutput {
    run_with(current_lab().ferroband(), args, "")
}

/// Runs kubectl as administrator.
pub fn kubectl(args: &[&str]) -> LabOutput {
    kubectl_with(args, "")
}

/// Runs kubectl with standard input.
pub fn kubectl_with(args: &[&str], input: &str) -> LabOutput {
    run_with(current_lab().kubectl(), args, input)
}

/// Runs Helm as administrator.
pub fn helm(args: &[&str]) -> LabOutput {
    run_with(current_lab().helm(), args, "")
}

/// Path of a chart in the checkout.
pub fn chart_path(name: &str) -> String {
    format!("{}/../../deploy/charts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a shell script on a machine of the lab: a node or `control`.
pub fn exec_on(machine: &str, script: &str) -> LabOutput {
    run_with(current_lab().exec(machine), &["sh", "-c", script], "")
}

/// Runs a shell script in a pod's first container.
pub fn exec_in_pod(pod: &str, script: &str) -> LabOutput {
    kubectl(&["exec", pod, "--", "sh", "-c", script])
}

/// Rounds of loops: 1, or more in `cargo xtask test soak`.
pub fn soak_rounds() -> usize {
    std::env::var("FERROBAND_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Names of the lab's nodes.
pub fn node_names() -> Vec<String> {
    let list = kubectl_get(&["nodes"]);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|n| n["metadata"]["name"].as_str().map(str::to_string)).collect()
}

fn run_with(command: anyhow::Result<Command>, args: &[&str], input: &str) -> LabOutput {
    let mut command = match command {
        Ok(command) => command,
        Err(error) => return LabOutput { ok: false, out: String::new(), err: format!("{error:#}") },
    };
    command.args(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    if let Some(mut stdin) = child.stdin.take() {
        // The command may exit without reading.
        let _ = stdin.write_all(input.as_bytes());
    }
    let end = child.wait_with_output().expect("the command ends");
    LabOutput {
        ok: end.status.success(),
        out: String::from_utf8_lossy(&end.stdout).into_owned(),
        err: String::from_utf8_lossy(&end.stderr).into_owned(),
    }
}
