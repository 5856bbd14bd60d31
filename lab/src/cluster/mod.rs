//! A lab: a real Kubernetes cluster on this machine, without image downloads and without InfiniBand hardware.
//!
//! ```text
//! machine `control`  (netns fblab-NAME)            machine NODE  (netns fblab-NAME-NODE), 1 to 8 of them
//!   etcd, kube-apiserver, controllers, scheduler      containerd, kubelet, kube-proxy, pods
//!   br0 10.77.0.1/24 ──────────── veth ────────────── eth0 10.77.0.10+n/24
//!                                                     pods 10.78.n.0/24 (ptp), routed between machines
//! ```
//!
//! With `--kernel vm` the nodes are emulated machines with InfiniBand instead (`emulated`).
//!
//! A *machine* is a process tree with its own mount, PID and network namespaces and its own /etc, /run, /var and /opt.
//! Killing its init process ends it like a power cut. It is not connected to the host's network.

mod cgroup;
mod cli;
mod control;
mod credentials;
mod down;
mod emulated;
mod init;
mod install;
mod janitor;
mod machine;
mod network;
mod node;
mod processes;
mod rootfs;
mod status;
mod subnet_manager;
mod traces;
mod up;

pub use cli::{
    InternalCommand, LabCommand, LabSelector, LabSubcommand, reboot, run, run_internal, run_subcommand,
};
pub use down::down;
pub use node::PAUSE_IMAGE;
pub use traces::find_traces;
pub use up::{LabRdmaMode, LabUpArgs, NodeKernel, up};

use anyhow::{Context, Result, bail};
use machine::LabMachine;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A lab, identified by its name.
#[derive(Clone, Debug)]
pub struct Lab {
    name: String,
    folder: PathBuf,
}

/// Configuration of a lab, stored in its folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LabConfig {
    nodes: Vec<String>,
    /// Kernel series of emulated nodes; none if the nodes share the host's kernel.
    #[serde(default)]
    emulated: Option<String>,
}

impl Lab {
    /// The lab called `name`, whether it exists or not.
    pub fn named(name: &str) -> Result<Self> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 20 || !name.chars().all(fits) || name.starts_with('-') {
            bail!("lab name `{name}`: use up to 20 of a-z, 0-9 and -, starting with a letter or digit");
        }
        Ok(Self { name: name.to_string(), folder: crate::cache::root()?.join("labs").join(name) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name prefix of its namespaces and cgroups.
    fn name_prefix(&self) -> String {
        format!("fblab-{}", self.name)
    }

    /// The machine that runs the control plane.
    fn control_machine(&self) -> LabMachine {
        LabMachine::new(self, "control", self.name_prefix())
    }

    /// A node's machine.
    fn node_machine(&self, node: &str) -> LabMachine {
        let mut machine = LabMachine::new(self, node, format!("{}-{node}", self.name_prefix()));
        machine.emulated = self.emulated_series().is_some();
        machine
    }

    /// Kernel series of its emulated nodes, if any.
    fn emulated_series(&self) -> Option<String> {
        self.config().ok().and_then(|shape| shape.emulated)
    }

    /// Finds a machine by name.
    fn find_machine(&self, name: &str) -> Result<LabMachine> {
        let shape = self.config()?;
        if name == "control" {
            return Ok(self.control_machine());
        }
        if !shape.nodes.iter().any(|n| n == name) {
            bail!(
                "lab `{}` has no machine `{name}`; its machines are control, {}",
                self.name,
                shape.nodes.join(", ")
            );
        }
        Ok(self.node_machine(name))
    }

    fn config(&self) -> Result<LabConfig> {
        let file = self.folder.join("lab.json");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("lab `{}` is not up: cargo xtask lab up --name {0}", self.name))?;
        serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()))
    }

    /// Node names, in order.
    pub fn nodes(&self) -> Result<Vec<String>> {
        Ok(self.config()?.nodes)
    }

    /// The control plane's network namespace.
    pub fn network_namespace(&self) -> PathBuf {
        Path::new("/run/netns").join(self.name_prefix())
    }

    /// A program in the control plane's network with the host's files: kubectl, curl.
    pub fn in_network(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.network_namespace().display())).args(["--", program]);
        command
    }

    /// kubectl as administrator.
    pub fn kubectl(&self) -> Result<Command> {
        let program = crate::programs::ensure_built()?.join("kubectl");
        let mut command = self.in_network(&program.to_string_lossy());
        command.env("KUBECONFIG", self.kubeconfig());
        Ok(command)
    }

    /// Helm as administrator; its files stay in the lab's folder.
    pub fn helm(&self) -> Result<Command> {
        let program = crate::programs::ensure_helm()?;
        let mut command = self.in_network(&program.to_string_lossy());
        command.env("KUBECONFIG", self.kubeconfig());
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.folder.join("helm").join(folder));
        }
        Ok(command)
    }

    /// The ferroband CLI as administrator: the last build, built now only if there is none.
    pub fn ferroband(&self) -> Result<Command> {
        let built = crate::image::built_cli_path()?;
        let program = if built.exists() { built } else { crate::image::build_product()?.ferroband };
        let mut command = self.in_network(&program.to_string_lossy());
        command.env("KUBECONFIG", self.kubeconfig());
        Ok(command)
    }

    /// The administrator's kubeconfig; valid inside the lab's network.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// A command inside a machine, with its files, network and processes.
    pub fn exec(&self, machine: &str) -> Result<Command> {
        self.find_machine(machine)?.command()
    }
}

/// The program that runs the lab's internal subcommands ([`InternalCommand`]): this process's own executable, or
/// `$FERROBAND_LAB_PROGRAM` for a program that does not have them, such as a test.
fn internal_program() -> OsString {
    // This path stays valid if cargo replaces the program's file.
    let own = || format!("/proc/{}/exe", std::process::id()).into();
    std::env::var_os("FERROBAND_LAB_PROGRAM").unwrap_or_else(own)
}
