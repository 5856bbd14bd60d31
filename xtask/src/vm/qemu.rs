//! How a machine looks to QEMU: software emulation, two NUMA nodes, an SR-IOV function on each for the soft HCA.

use super::BootArtifacts;
use std::process::Command;

/// Buses of the two adapters: behind host bridges of their own, as in a server with two sockets. The first is where the
/// documents this product is made after have their card: 0000:86:00.0.
const BUSES: [u8; 2] = [0x86, 0xaf];

/// What a machine is for, beside its memory.
pub struct VmOptions<'a> {
    /// What init does (`ferroband.mode`), and whatever else the kernel's command line says.
    pub append: &'a str,
    /// How much the kernel says on the console: 3 for people, 4 for logs.
    pub loglevel: u8,
    /// MiB of memory, a multiple of 2.
    pub memory: u32,
}

/// The command, without consoles, cables and disks: the caller adds them.
pub fn command(artifacts: &BootArtifacts, purpose: &VmOptions<'_>) -> Command {
    let VmOptions { append, loglevel, memory } = purpose;
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.args([
        "-smp",
        "2,sockets=2",
        "-m",
        &memory.to_string(),
        "-nodefaults",
        "-no-reboot",
        "-display",
        "none",
    ]);
    // The kernel meets host bridges in the reverse of this order; mlx5_0 shall be the first one's.
    for (node, bus) in BUSES.into_iter().enumerate().rev() {
        // Two NUMA nodes: placement by NUMA is part of what a device plugin reports.
        command.args(["-object", &format!("memory-backend-ram,id=m{node},size={}M", memory / 2)]);
        command.args(["-numa", &format!("node,nodeid={node},cpus={node},memdev=m{node}")]);
        command.args([
            "-device",
            &format!("pxb-pcie,id=bridge{node},bus=pcie.0,bus_nr={},numa_node={node}", bus - 1),
        ]);
        command.args([
            "-device",
            &format!("pcie-root-port,id=port{node},bus=bridge{node},slot={0},chassis={0}", node + 1),
        ]);
        command.args(["-device", &format!("nvme-subsys,id=subsystem{node}")]);
        // Only its configuration space is used: SR-IOV with 16 functions. No drive, no queue is ever touched.
        let function =
            "sriov_max_vfs=16,sriov_vq_flexible=32,sriov_vi_flexible=16,max_ioqpairs=40,msix_qsize=40";
        command.args([
            "-device",
            &format!("nvme,bus=port{node},serial={node},subsys=subsystem{node},{function}"),
        ]);
    }
    command.arg("-kernel").arg(&artifacts.kernel).arg("-initrd").arg(&artifacts.initramfs);
    // A busy host may not run the machine for seconds, which the kernel would take for a broken timer or a hang.
    command.arg("-append").arg(format!(
        "console=ttyS0 loglevel={loglevel} panic=-1 oops=panic mitigations=off nowatchdog no_timer_check \
         rcupdate.rcu_cpu_stall_suppress=1 {append}"
    ));
    command
}
