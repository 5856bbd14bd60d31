//! A machine that is a node of the lab: the same kernel and adapters, with a disk, shared folders and a network cable.

use super::BootArtifacts;
use super::guest::GuestTestSelection;
use super::qemu::{self, VmOptions};
use super::userland::UserlandFlavour;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Memory of a node: kubelet, containerd, the product and a handful of pods.
const MEMORY: u32 = 2560;

/// What a node's machine is connected to.
pub struct NodeWiring<'a> {
    /// A file with an ext4 file system: what outlives a reboot.
    pub disk: &'a Path,
    /// Folders of the host, by the names under which the guest mounts them, and whether it may write there.
    pub shares: &'a [(&'a str, &'a Path, bool)],
    /// The tap that its network interface is the other end of.
    pub tap: &'a str,
    /// That interface's hardware address.
    pub mac: &'a str,
    /// Where the console goes.
    pub console: &'a Path,
}

/// Everything a node boots from.
pub fn build_artifacts(series: &str) -> Result<BootArtifacts> {
    super::assemble(series, UserlandFlavour::Node, &GuestTestSelection::NONE)
}

/// The machine, not yet started.
pub fn node_command(artifacts: &BootArtifacts, wiring: &NodeWiring<'_>) -> Command {
    let purpose = VmOptions { append: "ferroband.mode=node", loglevel: 4, memory: MEMORY };
    let mut qemu = qemu::command(artifacts, &purpose);
    // Each on the first bus: QEMU would put them behind an adapter's bridge, where they do not fit.
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
