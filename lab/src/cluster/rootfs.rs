//! Root file system of a machine: its own /etc, /var, /opt and /root; the host's programs, read-only.

use super::machine::LabMachine;
use crate::command::{command, run};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Folders that survive a reboot.
const PERSISTENT_DIRS: [&str; 14] = [
    "etc/cni/net.d",
    "etc/lab",
    "var/lib/kubelet",
    "var/lib/containerd",
    "var/lib/cni",
    "var/log",
    "var/tmp",
    "var/cache",
    "opt/cni/bin",
    "opt/lab/bin",
    "root",
    "tmp",
    "usr",
    "old",
];
/// Mount points of kernel and temporary file systems.
const MOUNT_POINTS: [&str; 4] = ["proc", "sys", "dev", "run"];
/// Files that programs need from the host's /etc. Debian's `iptables` links to `alternatives`.
const HOST_ETC_FILES: [&str; 9] = [
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl",
    "protocols",
    "services",
    "ethertypes",
    "nsswitch.conf",
];

/// Creates missing folders and files of `machine`.
pub fn prepare(machine: &LabMachine) -> Result<()> {
    let root = machine.root();
    for folder in PERSISTENT_DIRS.iter().chain(&MOUNT_POINTS) {
        fs::create_dir_all(root.join(folder)).with_context(|| format!("cannot create {folder}"))?;
    }
    for merged in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        mirror_host_link(Path::new("/").join(merged).as_path(), &root.join(merged))?;
    }
    if !root.join("var/run").is_symlink() {
        symlink("/run", root.join("var/run"))?;
    }
    for name in HOST_ETC_FILES {
        let (from, to) = (Path::new("/etc").join(name), root.join("etc").join(name));
        if from.exists() && !to.exists() {
            run(command("cp", ["-a"]).arg(&from).arg(&to))?;
        }
    }
    let write = |name: &str, text: &str| fs::write(root.join("etc").join(name), text);
    write("hostname", &format!("{}\n", machine.name))?;
    write("hosts", &format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {}\n", machine.name))?;
    write("resolv.conf", "# The lab has no name server.\n")?;
    write(
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    )?;
    write("group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n")?;
    write("os-release", "ID=ferroband-lab\nPRETTY_NAME=\"Ferroband lab\"\n")?;
    if !root.join("etc/machine-id").exists() {
        write("machine-id", &fs::read_to_string("/proc/sys/kernel/random/uuid")?.replace('-', ""))?;
    }
    for plugin in ["bridge", "host-local", "loopback", "portmap", "ptp", "static", "tuning", "macvlan"] {
        let (from, to) = (Path::new("/usr/lib/cni").join(plugin), root.join("opt/cni/bin").join(plugin));
        if from.exists() && !to.exists() {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}

/// With merged /usr, /bin and the like are links; otherwise folders, bind-mounted by init.
fn mirror_host_link(host: &Path, target: &Path) -> Result<()> {
    if target.is_symlink() || target.exists() {
        return Ok(());
    }
    if host.is_symlink() {
        symlink(fs::read_link(host)?, target)?;
    } else if host.is_dir() {
        fs::create_dir_all(target)?;
    }
    Ok(())
}
