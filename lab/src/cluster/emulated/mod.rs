//! Nodes with their own kernel: QEMU in the node's network namespace, InfiniBand from the software HCA.
//!
//! ```text
//! netns fblab-NAME              netns fblab-NAME-NODE          the emulated machine
//!   br0 10.77.0.1 ──── veth ──── eth0 ─ br0 ─ tap0 ─────────── eth0 10.77.0.10+n
//!                                QEMU runs here                 containerd, kubelet, pods
//!                                                               mlx5_0, mlx5_1: switch ── UDP over eth0 ── peers
//! ```
//!
//! To the rest of the lab it is a machine like the others: it is stopped by killing its init process (QEMU), commands
//! run inside it (through ssh from the control plane's namespace), and its folder `root`, which the guest mounts, has
//! its configuration and logs. State that survives a reboot (`/var/lib`, `/etc/cni`, `/opt/cni`) is on a disk.

mod disk;
mod remote;

use super::Lab;
use super::machine::LabMachine;
use super::network::{self, CONTROL_ADDRESS, node_address, node_pod_range};
use super::rootfs;
use super::up::LabRdmaMode;
use crate::command::tail;
use crate::progress::{ProgressStep, run_step, wait_until};
use crate::tools::HostRequirement;
use crate::vm::BootArtifacts;
use crate::vm::node::{self, NodeWiring};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

pub use remote::{LabExecArgs, run_in_machine};

/// Requirements of the host besides QEMU.
const HOST_REQUIREMENTS: &[HostRequirement] = &[
    HostRequirement { file: "ssh", package: "openssh-client" },
    HostRequirement { file: "mke2fs", package: "e2fsprogs" },
];

/// Limit from power on to a working ssh: 30 s on an idle host.
const BOOT_LIMIT: Duration = Duration::from_secs(900);

/// Starts all nodes in parallel: an emulated machine mostly waits.
pub fn boot_nodes(
    lab: &Lab,
    machines: &[LabMachine],
    artifacts: &BootArtifacts,
    programs: &Path,
    images: &[PathBuf],
    rdma: LabRdmaMode,
) -> Result<()> {
    network::redirect_api_service(&lab.control_machine())?;
    for (position, machine) in machines.iter().enumerate() {
        network::setup_emulated_node(&lab.control_machine(), machine, position)?;
        if machine.init_pid().is_none() {
            prepare(lab, machine, position, rdma)?;
            boot(machine, position, artifacts, programs, images)?;
        }
    }
    let one = |position: usize, machine: &LabMachine| {
        run_step(format!("emulated node {}", machine.name), |step| {
            wait_booted(lab, machine, step)?;
            super::node::ensure(lab, machine, position, images, step)
        })
    };
    std::thread::scope(|scope| {
        let nodes: Vec<_> =
            machines.iter().enumerate().map(|(p, m)| scope.spawn(move || one(p, m))).collect();
        nodes
            .into_iter()
            .try_for_each(|node| node.join().unwrap_or_else(|_| bail!("a node's thread panicked")))
    })
}

/// Log file of the machine's console.
fn console_log(machine: &LabMachine) -> PathBuf {
    machine.folder.join("console.log")
}

/// Writes the files that the guest reads at boot: root file system, ssh key, environment.
fn prepare(lab: &Lab, machine: &LabMachine, position: usize, rdma: LabRdmaMode) -> Result<()> {
    rootfs::prepare(machine)?;
    fs::create_dir_all(machine.root().join("var/log/lab"))?;
    remote::ensure_key(lab)?;
    let etc = machine.root().join("etc/lab");
    fs::copy(remote::public_key_path(lab), etc.join("authorized_keys"))
        .context("cannot copy the public key")?;
    Ok(fs::write(etc.join("node.env"), guest_environment(lab, machine, position, rdma)?)?)
}

/// Starts a machine in its network namespace; see [`wait`] for when it is ready.
fn boot(
    machine: &LabMachine,
    position: usize,
    artifacts: &BootArtifacts,
    programs: &Path,
    images: &[PathBuf],
) -> Result<()> {
    crate::tools::require(HOST_REQUIREMENTS)?;
    let disk = disk::ensure(machine, programs, images)?;
    let console = console_log(machine);
    fs::write(&console, "")?;
    let archives = crate::cache::folder("images")?;
    let shares =
        [("host", &*machine.root(), true), ("programs", programs, false), ("images", &*archives, false)];
    let qemu = node::node_command(
        artifacts,
        &NodeWiring {
            disk: &disk,
            shares: &shares,
            tap: "tap0",
            mac: &format!("02:fb:00:00:00:{:02x}", 10 + position),
            console: &console,
        },
    );
    let log = fs::File::create(machine.log("qemu")).context("cannot create the log of qemu")?;
    let mut start =
        crate::command::command("setsid", ["nsenter", &format!("--net=/run/netns/{}", machine.netns), "--"]);
    start.arg(qemu.get_program()).args(qemu.get_args());
    start.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // None of these programs forks, so this becomes QEMU's PID.
    let mut child = start.spawn().context("cannot start the machine")?;
    fs::write(machine.folder.join("init.pid"), child.id().to_string())
        .context("cannot write the PID file")?;
    // The machine counts as running once QEMU is in its namespace.
    while machine.init_pid().is_none() && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Waits until ssh works; stops early if the boot failed.
fn wait_booted(lab: &Lab, machine: &LabMachine, step: &mut ProgressStep) -> Result<()> {
    let mut failure = None;
    wait_until(&format!("machine {}", machine.name), BOOT_LIMIT, step, || {
        let console = fs::read_to_string(console_log(machine)).unwrap_or_default();
        let has = |word: &str| console.lines().any(|line| line.starts_with(word));
        if machine.init_pid().is_none() || has("NODE failed") {
            let qemu = fs::read_to_string(machine.log("qemu")).unwrap_or_default();
            failure = Some(format!("{}{}", tail(&console, 15), tail(&qemu, 5)));
            return Ok(());
        }
        if has("NODE ready") { Ok(()) } else { Err(format!("{}: starting", machine.name)) }
    })?;
    match failure {
        Some(log) => bail!("machine {} did not boot:\n{log}", machine.name),
        None => remote::ensure_connection(lab, machine),
    }
}

/// Shell variables with the guest's and its peers' addresses.
fn guest_environment(lab: &Lab, machine: &LabMachine, position: usize, rdma: LabRdmaMode) -> Result<String> {
    let nodes = lab.nodes()?;
    let others = || (0..nodes.len()).filter(|other| *other != position);
    let peers: Vec<String> = others().map(node_address).collect();
    let routes: Vec<String> =
        others().map(|o| format!("{}={}", node_pod_range(o), node_address(o))).collect();
    Ok(format!(
        "NAME={}\nNODE={}\nADDRESS={}\nGATEWAY={CONTROL_ADDRESS}\nPEERS={}\nROUTES='{}'\nCGROUP={}\nRDMA={}\n",
        machine.name,
        position + 1,
        node_address(position),
        peers.join(","),
        routes.join(" "),
        machine.netns,
        format!("{rdma:?}").to_lowercase(),
    ))
}
