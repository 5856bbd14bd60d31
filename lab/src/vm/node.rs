//! A machine as a node of the lab: with a disk, shared folders and a network interface.

use super::BootArtifacts;
use super::guest::GuestTestSelection;
use super::qemu::{self, VmOptions};
use super::userland::UserlandFlavour;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Memory of a node in MiB: kubelet, containerd, Ferroband and a few pods.
const MEMORY: u32 = 2560;

/// Disk, shares, network and console of a node.
pub struct NodeWiring<'a> {
    /// File with an ext4 file system that survives reboots.
    pub disk: &'a Path,
    /// Shared folders: mount tag, folder on the host, whether the guest may write.
    pub shares: &'a [(&'a str, &'a Path, bool)],
    /// Tap device of its network interface.
    pub tap: &'a str,
    /// MAC address of its network interface.
    pub mac: &'a str,
    /// Log file of the console.
    pub console: &'a Path,
}

/// Builds the boot files of a node.
pub fn build_artifacts(series: &str) -> Result<BootArtifacts> {
    super::assemble(series, UserlandFlavour::Node, &GuestTestSelection::NONE)
}

/// The QEMU command of a node.
pub fn node_command(artifacts: &BootArtifacts, wiring: &NodeWiring<'_>) -> Command {
    let purpose = VmOptions { append: "ferroband.mode=node", loglevel: 4, memory: MEMORY };
    let mut qemu = qemu::command(artifacts, &purpose);
    // On the root bus: QEMU would otherwise put them behind an adapter's bridge, which has no free slot.
    qemu.args(["-drive", &format!("if=none,id=disk,format=raw,cache=unsafe,file={}", wiring.disk.display())]);
    qemu.args(["-device", "virtio-blk-pci,bus=pcie.0,drive=disk"]);
    for (tag, folder, writable) in wiring.shares {
        let readonly = if *writable { "off" } else { "on" };
        let path = folder.display();
        qemu.args([
            "-fsdev",
            &format!("local,id={tag},path={path},security_model=none,multidevs=remap,readonly={readonly}"),
            "-device",
            &format!("virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"),
        ]);
    }
    qemu.args(["-netdev", &format!("tap,id=cable,ifname={},script=no,downscript=no", wiring.tap)]);
    qemu.args([
        "-device",
        &format!("virtio-net-pci,bus=pcie.0,netdev=cable,mac={},host_mtu=9000", wiring.mac),
    ]);
    qemu.args(["-serial", &format!("file:{}", wiring.console.display())]);
    qemu
}
