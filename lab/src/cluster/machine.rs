//! A machine of the lab: namespaces, a root file system, and an init process that holds them.

use super::{Lab, cgroup, internal_program, rootfs};
use crate::command::{command, output, run, succeeds};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A machine; its state is read from the kernel.
#[derive(Clone, Debug)]
pub struct LabMachine {
    pub name: String,
    /// Name of its network namespace and its cgroups.
    pub netns: String,
    /// Its folder; `root` and `log` survive a reboot.
    pub folder: PathBuf,
    pub lab: String,
    /// Whether it runs its own kernel in QEMU.
    pub emulated: bool,
}

impl LabMachine {
    pub(super) fn new(lab: &Lab, name: &str, netns: String) -> Self {
        let folder = lab.folder.join("machines").join(name);
        Self { name: name.to_string(), netns, folder, lab: lab.name().to_string(), emulated: false }
    }

    /// Persistent part of its file system.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Log file of a program.
    pub fn log(&self, program: &str) -> PathBuf {
        self.folder.join("root/var/log/lab").join(format!("{program}.log"))
    }

    /// PID of the init process, if the machine runs. PIDs are reused, so the process must also be in the machine's
    /// network namespace.
    pub fn init_pid(&self) -> Option<i32> {
        let pid: i32 = fs::read_to_string(self.folder.join("init.pid")).ok()?.trim().parse().ok()?;
        let process = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
        let namespace = fs::metadata(Path::new("/run/netns").join(&self.netns)).ok()?;
        use std::os::unix::fs::MetadataExt;
        (process.ino() == namespace.ino() && process.dev() == namespace.dev()).then_some(pid)
    }

    /// Starts the machine; its network namespace must exist.
    pub fn boot(&self, programs: &Path) -> Result<()> {
        rootfs::prepare(self)?;
        cgroup::create(&self.netns)?;
        fs::create_dir_all(self.root().join("var/log/lab"))?;
        for stale in ["init.pid", "root/run-ready"] {
            let _ = fs::remove_file(self.folder.join(stale));
        }
        let log = fs::File::create(self.log("init")).context("cannot create the log of init")?;
        let net = format!("--net=/run/netns/{}", self.netns);
        let mut start = command("setsid", ["nsenter", &net, "--"]);
        start.args(["unshare", "--mount", "--pid", "--fork", "--"]).arg(internal_program()).arg("lab-init");
        start
            .arg("--folder")
            .arg(&self.folder)
            .arg("--programs")
            .arg(programs)
            .arg("--hostname")
            .arg(&self.name);
        start.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        start.current_dir("/").stdout(log.try_clone()?).stderr(log);
        let mut child = start.spawn().context("cannot start the machine")?;
        let begin = Instant::now();
        while self.init_pid().is_none() || !self.folder.join("root/run-ready").exists() {
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(self.log("init")).unwrap_or_default();
                bail!("machine {} did not start: {status}\n{log}", self.name);
            }
            if begin.elapsed() > Duration::from_secs(10) {
                bail!("machine {} did not start within 10 s, see {}", self.name, self.log("init").display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// A command inside the machine, without program and arguments.
    pub fn command(&self) -> Result<Command> {
        let Some(init) = self.init_pid() else {
            bail!("machine {} is not running: cargo xtask lab up", self.name)
        };
        if self.emulated {
            let mut enter = Command::new(internal_program());
            enter.args(["lab-exec", "--lab", &self.lab, &self.name, "--"]);
            return Ok(enter);
        }
        let target = init.to_string();
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &target, "--mount", "--net", "--pid", "--uts", "--root", "--wd", "--"]);
        enter.env(
            "PATH",
            "/opt/lab/bin:/opt/ferroband/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        enter.env("HOME", "/root").env_remove("TMPDIR");
        Ok(enter)
    }

    /// Runs a shell script inside and returns its output.
    pub fn run_script(&self, text: &str) -> Result<String> {
        output(self.command()?.args(["sh", "-c", text]).stdin(Stdio::null()))
    }

    /// Power cut: kills init and with it all processes in its PID namespace.
    pub fn kill(&self) -> Result<()> {
        let mut pids: Vec<i32> = self.init_pid().into_iter().collect();
        // All processes in the network namespace, including init if its PID file is lost.
        if Path::new("/run/netns").join(&self.netns).exists() {
            let listed = output(&mut command("ip", ["netns", "pids", &self.netns])).unwrap_or_default();
            pids.extend(listed.split_whitespace().filter_map(|p| p.parse::<i32>().ok()));
        }
        for pid in &pids {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::SIGKILL);
        }
        let begin = Instant::now();
        while pids.iter().any(|p| Path::new(&format!("/proc/{p}")).exists() && !is_zombie(*p)) {
            if begin.elapsed() > Duration::from_secs(20) {
                bail!("machine {}: processes {pids:?} do not exit", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_file(self.folder.join("init.pid"));
        Ok(())
    }

    /// Removes kernel state of a stopped machine: cgroups and the network namespace with its links.
    pub fn remove_kernel_state(&self) -> Result<()> {
        cgroup::remove(&self.netns)?;
        if Path::new("/run/netns").join(&self.netns).exists() {
            run(&mut command("ip", ["netns", "delete", &self.netns]))?;
        }
        Ok(())
    }

    /// Whether its network namespace exists.
    pub fn has_netns(&self) -> bool {
        succeeds(&mut command("ip", ["-n", &self.netns, "link", "show", "lo"]))
    }
}

fn is_zombie(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |s| s.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}
