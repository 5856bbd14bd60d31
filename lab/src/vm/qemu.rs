//! QEMU configuration: KVM or software emulation, two NUMA nodes, one SR-IOV function per node for the software HCA.

use super::BootArtifacts;
use super::accelerator::Accelerator;
use std::process::Command;

/// PCI buses of the two adapters, each behind its own host bridge, as in a server with two sockets. The first is at
/// 0000:86:00.0, as in the documents.
const BUSES: [u8; 2] = [0x86, 0xaf];

/// Kernel command line and memory of a machine.
pub struct VmOptions<'a> {
    /// Additional kernel command line, with init's mode (`ferroband.mode`).
    pub append: &'a str,
    /// Console log level: 3 for interactive use, 4 for logs.
    pub loglevel: u8,
    /// Memory in MiB, a multiple of 2.
    pub memory: u32,
}

/// The QEMU command without consoles, network and disks.
pub fn command(artifacts: &BootArtifacts, purpose: &VmOptions<'_>) -> Command {
    let VmOptions { append, loglevel, memory } = purpose;
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-M", "q35"]).args(Accelerator::of_host(&artifacts.kernel).arguments());
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
    // The kernel enumerates host bridges in reverse order; mlx5_0 must be on the first one.
    for (node, bus) in BUSES.into_iter().enumerate().rev() {
        // Two NUMA nodes, since device plugins report NUMA topology.
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
        // Only its configuration space is used, for SR-IOV with 16 functions; no drive and no queue.
        let function =
            "sriov_max_vfs=16,sriov_vq_flexible=32,sriov_vi_flexible=16,max_ioqpairs=40,msix_qsize=40";
        command.args([
            "-device",
            &format!("nvme,bus=port{node},serial={node},subsys=subsystem{node},{function}"),
        ]);
    }
    command.arg("-kernel").arg(&artifacts.kernel).arg("-initrd").arg(&artifacts.initramfs);
    // A busy host may pause the machine for seconds, which the kernel would report as a broken timer or a hang.
    command.arg("-append").arg(format!(
        "console=ttyS0 loglevel={loglevel} panic=-1 oops=panic mitigations=off nowatchdog no_timer_check \
         rcupdate.rcu_cpu_stall_suppress=1 {append}"
    ));
    command
}
