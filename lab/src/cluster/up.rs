//! Starts or repairs a lab: everything is checked, and only what is missing is started.

use super::machine::LabMachine;
use super::{Lab, LabConfig, control, emulated, janitor, network, node, processes};
use crate::command::output;
use crate::progress::{ProgressStep, run_step, wait_until};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

/// `cargo xtask lab up`
#[derive(Args, Clone, Debug)]
pub struct LabUpArgs {
    /// Number of nodes, 1 to 8 [default: 2, or those of the existing lab]
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Node names instead of node1, node2, …
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub node_names: Vec<String>,
    /// Kernel of the nodes: the host's, or an emulated machine's with InfiniBand
    #[arg(long, value_enum, default_value_t = NodeKernel::Host)]
    pub kernel: NodeKernel,
    /// Kernel series of emulated nodes, from Debian's packages
    #[arg(long, value_name = "SERIES", default_value = "6.1")]
    pub series: String,
    /// RDMA mode of emulated nodes: devices belong to one network namespace, or are shared by all
    #[arg(long, value_enum, default_value_t = LabRdmaMode::Exclusive)]
    pub rdma: LabRdmaMode,
    /// Install Ferroband with its chart
    #[arg(long)]
    pub install: bool,
    /// Use the image ferroband-tools for the node daemon, with opensm, mstconfig and perftest
    #[arg(long, requires = "install")]
    pub tools: bool,
    /// Simulated hardware profile of each node
    #[arg(long, value_name = "HARDWARE", default_value = "default")]
    pub profile: String,
    /// Run a simulated UFM as subnet manager of the simulated hardware
    #[arg(long, requires = "install")]
    pub ufm: bool,
    /// Remove the lab when this process ends
    #[arg(long, value_name = "PID", hide = true)]
    pub owner: Option<u32>,
}

/// Where the nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NodeKernel {
    /// In namespaces of the host's kernel
    Host,
    /// In emulated machines with a software HCA
    Vm,
}

/// RDMA mode (`rdma system`) of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabRdmaMode {
    /// Each device belongs to one network namespace
    Exclusive,
    /// All network namespaces share all devices
    Shared,
}

impl LabUpArgs {
    /// Keeps the lab's configuration.
    pub fn unchanged() -> Self {
        Self {
            nodes: None,
            node_names: Vec::new(),
            kernel: NodeKernel::Host,
            series: String::new(),
            rdma: LabRdmaMode::Exclusive,
            install: false,
            tools: false,
            profile: String::new(),
            ufm: false,
            owner: None,
        }
    }

    /// The requested node names, those of the existing lab, or the default two.
    fn names(&self, lab: &Lab) -> Result<Vec<String>> {
        let has = lab.nodes().unwrap_or_default();
        let names = if !self.node_names.is_empty() {
            self.node_names.clone()
        } else if let Some(count) = self.nodes {
            (1..=count).map(|n| format!("node{n}")).collect()
        } else if has.is_empty() {
            vec!["node1".to_string(), "node2".to_string()]
        } else {
            has.clone()
        };
        check_names(self, &names)?;
        if names.len() < has.len() || names[..has.len()] != has[..] {
            bail!("lab `{}` has nodes {}; remove it to change them", lab.name(), has.join(", "));
        }
        Ok(names)
    }
}

fn check_names(up: &LabUpArgs, names: &[String]) -> Result<()> {
    if names.is_empty() || names.len() > 8 {
        bail!("a lab must have 1 to 8 nodes, not {}", names.len());
    }
    if up.nodes.is_some_and(|n| n != names.len()) {
        bail!("--nodes {} does not match {} names", up.nodes.unwrap_or_default(), names.len());
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    for (position, name) in names.iter().enumerate() {
        if name.is_empty() || name.len() > 20 || !name.chars().all(fits) || name == "control" {
            bail!("node name `{name}`: use up to 20 of a-z, 0-9 and -, except `control`");
        }
        if names[..position].contains(name) {
            bail!("duplicate node name `{name}`");
        }
    }
    Ok(())
}

/// Starts or repairs the lab.
pub fn up(lab: &Lab, args: &LabUpArgs) -> Result<()> {
    crate::tools::require_root()?;
    crate::tools::require(crate::tools::LAB_REQUIREMENTS)?;
    let programs = crate::programs::ensure_built()?;
    let mut images = crate::image::build_lab_images()?;
    let names = args.names(lab)?;
    fs::create_dir_all(&lab.folder).with_context(|| format!("cannot create {}", lab.folder.display()))?;
    // An existing lab keeps its kernel.
    let requested = (args.kernel == NodeKernel::Vm).then(|| args.series.clone());
    let emulated = if lab.nodes().is_ok() { lab.emulated_series() } else { requested.clone() };
    if requested.is_some() && requested != emulated {
        bail!("lab `{}` has nodes with another kernel; remove it to change them", lab.name());
    }
    let artifacts = emulated.as_deref().map(crate::vm::node::build_artifacts).transpose()?;
    if emulated.is_some() && args.install {
        // Built before the machines need the CPUs, and imported on the host with the other images.
        images.push(crate::image::build_product()?.archive);
    }
    let shape = serde_json::to_string_pretty(&LabConfig { nodes: names.clone(), emulated })?;
    fs::write(lab.folder.join("lab.json"), shape).context("cannot write lab.json")?;
    if let Some(owner) = args.owner {
        janitor::spawn(lab, owner)?;
    }

    let machine = lab.control_machine();
    run_step("control plane", |step| {
        network::setup_control(&machine)?;
        if machine.init_pid().is_none() {
            machine.boot(&programs)?;
        }
        control::ensure(lab, &machine, &names, step)
    })?;
    let machines: Vec<LabMachine> = names.iter().map(|n| lab.node_machine(n)).collect();
    match &artifacts {
        Some(artifacts) => {
            emulated::boot_nodes(lab, &machines, artifacts, &programs, &images, args.rdma)?;
        }
        None => run_step(format!("nodes {}", names.join(", ")), |step| {
            for (position, machine) in machines.iter().enumerate() {
                network::setup_node(&lab.control_machine(), machine, position)?;
                if machine.init_pid().is_none() {
                    machine.boot(&programs)?;
                }
                node::ensure(lab, machine, position, &images, step)?;
            }
            network::add_pod_routes(&machines)
        })?,
    }
    run_step("nodes Ready", |step| wait_nodes_ready(lab, &machines, step))?;
    if args.install {
        super::install::install(lab, &args.profile, args.tools)?;
    }
    if args.ufm {
        super::subnet_manager::ensure(lab)?;
    }
    Ok(())
}

/// Waits until all nodes are Ready.
fn wait_nodes_ready(lab: &Lab, machines: &[LabMachine], step: &mut ProgressStep) -> Result<()> {
    let limit = if machines.iter().any(|m| m.emulated) { 900 } else { 120 };
    wait_until("nodes", Duration::from_secs(limit), step, || {
        for machine in machines {
            processes::check_running(machine, node::required_programs(machine))?;
        }
        let states = node_ready_conditions(lab).map_err(|e| format!("{e:#}"))?;
        let not_ready: Vec<&str> = machines
            .iter()
            .map(|m| &m.name)
            .filter(|n| states.get(*n).map(String::as_str) != Some("True"))
            .map(String::as_str)
            .collect();
        if not_ready.is_empty() { Ok(()) } else { Err(format!("waiting for {}", not_ready.join(", "))) }
    })
}

/// Each node's Ready condition.
pub fn node_ready_conditions(lab: &Lab) -> Result<BTreeMap<String, String>> {
    let path =
        "{range .items[*]}{.metadata.name} {.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}";
    let text = output(
        lab.kubectl()?.args(["get", "nodes", "-o"]).arg(format!("jsonpath={path}")).stdin(Stdio::null()),
    )?;
    Ok(text.lines().filter_map(|l| l.split_once(' ')).map(|(n, s)| (n.to_string(), s.to_string())).collect())
}
