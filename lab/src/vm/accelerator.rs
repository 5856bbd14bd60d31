//! How QEMU runs machines: with KVM where it works, otherwise by software emulation (TCG).
//!
//! A /dev/kvm proves nothing: on some hosts, nothing boots on it. So the kernel is booted once without a root file
//! system, and KVM works if it gets as far as looking for one.

use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

/// Limit of the trial boot; it takes 2 s.
const TRIAL_LIMIT: Duration = Duration::from_secs(30);
/// The kernel's last words without a root file system.
const BOOTED: &str = "VFS: Unable to mount root fs";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    /// The one of this host. The first call tries KVM with the kernel image `kernel`, and prints which one is used.
    pub fn of_host(kernel: &Path) -> Self {
        static FOUND: OnceLock<Accelerator> = OnceLock::new();
        *FOUND.get_or_init(|| {
            match try_kvm(Path::new("/dev/kvm"), "qemu-system-x86_64", kernel, TRIAL_LIMIT) {
                Ok(()) => {
                    eprintln!("  · machines use KVM");
                    Self::Kvm
                }
                Err(error) => {
                    eprintln!(
                        "  · machines are emulated in software (TCG), because KVM does not work: {error:#}"
                    );
                    Self::Tcg
                }
            }
        })
    }

    /// The options of QEMU.
    pub fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }
}

/// Boots the kernel with KVM until it looks for its root file system.
fn try_kvm(device: &Path, qemu: &str, kernel: &Path, limit: Duration) -> Result<()> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        .with_context(|| format!("cannot open {}", device.display()))?;
    // The machine must end with this process, even if it is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", qemu, "-M", "q35", "-m", "256", "-nodefaults", "-no-reboot"]);
    command.args(Accelerator::Kvm.arguments()).args(["-display", "none", "-serial", "stdio", "-kernel"]);
    command.arg(kernel).args(["-append", "console=ttyS0 panic=-1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut machine = command.spawn().with_context(|| format!("cannot start {qemu}"))?;
    let console = machine.stdout.take().context("the machine has no console")?;
    let (send, booted) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(console).split(b'\n').map_while(Result::ok);
        let found =
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(BOOTED));
        let _ = send.send(found);
    });
    let result = booted.recv_timeout(limit);
    let _ = machine.kill();
    let _ = machine.wait();
    match result {
        Ok(true) => Ok(()),
        Ok(false) => bail!("a machine ended before its kernel had started"),
        Err(_) => bail!("the kernel of a machine did not start within {} s", limit.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Tries KVM with a program in place of QEMU. Returns why KVM does not work.
    fn trial(name: &str, script: &str) -> Option<String> {
        let folder = crate::cache::folder("kvm-test").unwrap().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (device, qemu) = (folder.join("kvm"), folder.join("qemu"));
        fs::write(&device, "").unwrap();
        fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        let tried = try_kvm(&device, &qemu.to_string_lossy(), Path::new("/k"), Duration::from_secs(2));
        fs::remove_dir_all(folder).unwrap();
        tried.err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn kvm_works_if_a_kernel_looks_for_its_root_file_system() {
        let panic = "echo 'Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)'";
        assert_eq!(trial("boots", panic), None);
        assert_eq!(trial("boots-and-stays", &format!("{panic}; exec sleep 60")), None);
    }

    #[test]
    fn kvm_on_which_nothing_boots_does_not_work() {
        let ended = trial("ends", "echo 'Linux version 6.1'; exit 1").unwrap();
        assert!(ended.contains("ended before"), "{ended}");
        let silent = trial("hangs", "exec sleep 60").unwrap();
        assert!(silent.contains("did not start within 2 s"), "{silent}");
        let missing = try_kvm(Path::new("/nowhere/kvm"), "qemu", Path::new("/k"), TRIAL_LIMIT).unwrap_err();
        assert!(format!("{missing:#}").contains("cannot open /nowhere/kvm"), "{missing:#}");
    }
}
