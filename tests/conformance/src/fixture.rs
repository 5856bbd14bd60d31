//! A host, a pod and plugins for one case.

use crate::case::{CaseRequirement, ConformanceCase};
use anyhow::{Context, Result, bail};
use ferroband_kernel::{Netns, Root};
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// The environment of a case. The calling thread stays in the host's namespaces for the rest of its life.
pub struct ConformanceFixture {
    folder: tempfile::TempDir,
    pod: Child,
    simulated: bool,
}

impl ConformanceFixture {
    /// Set up the environment for `case`, with `binary` installed as `name`.
    pub fn new(case: &ConformanceCase, name: &str, binary: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // Copy before /run and /var/lib are mounted over: the binary may be there.
        fs::copy(binary, folder.path().join("binary")).context("copying the binary")?;
        for part in ["bin", "leases"] {
            fs::create_dir(folder.path().join(part))?;
        }
        symlink("../binary", folder.path().join("bin").join(name))?;
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).context("new namespaces")?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        for covered in ["/run", "/var/lib"] {
            mount(Some("tmpfs"), covered, Some("tmpfs"), MsFlags::empty(), none)?;
        }
        let simulated = case.needs.contains(&CaseRequirement::Infiniband);
        if simulated {
            Simulation::up(&Root::default(), Profile::default(), SimulationOptions::default())?;
        }
        let pod = Command::new("unshare").args(["--net", "sleep", "600"]).spawn()?;
        let fixture = Self { folder, pod, simulated };
        fixture.wait_for_pod()?;
        for (plugin, script) in &case.plugins {
            fixture.install_plugin(plugin, script)?;
        }
        for (plugin, milliseconds) in &case.busy {
            fixture.hold_open(plugin, Duration::from_millis(*milliseconds))?;
        }
        for arguments in &case.host {
            ip(arguments)?;
        }
        Ok(fixture)
    }

    fn wait_for_pod(&self) -> Result<()> {
        let own = Netns::current()?.id();
        let end = Instant::now() + Duration::from_secs(10);
        while !Netns::open(self.netns()).is_ok_and(|netns| netns.id() != own) {
            if Instant::now() > end {
                bail!("the pod's namespace did not appear");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn install_plugin(&self, name: &str, script: &str) -> Result<()> {
        let file = self.plugin_dir().join(name);
        let head = format!(
            "#!/bin/sh\nLOG={}\nLEASES={}\nIN=$(cat)\necho \"$CNI_COMMAND {name} $CNI_IFNAME\" >> $LOG\n",
            self.log_file().display(),
            self.leases_dir().display()
        );
        fs::write(&file, format!("{head}{script}\n"))?;
        Ok(fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?)
    }

    /// Keep a plugin's file open for writing for a while, as an installer does.
    fn hold_open(&self, name: &str, time: Duration) -> Result<()> {
        let file = OpenOptions::new().append(true).open(self.plugin_dir().join(name))?;
        thread::spawn(move || {
            thread::sleep(time);
            drop(file);
        });
        Ok(())
    }

    /// `CNI_PATH`.
    pub fn plugin_dir(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Directory of the plugins' leases, which must be empty at the end.
    pub fn leases_dir(&self) -> PathBuf {
        self.folder.path().join("leases")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// `CNI_NETNS`.
    pub fn netns(&self) -> String {
        format!("/proc/{}/ns/net", self.pod.id())
    }

    /// Lines that the plugins logged since the last call.
    pub fn take_log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        let _ = fs::remove_file(self.log_file());
        text.lines().map(str::to_owned).collect()
    }

    /// Run `ip -j` in the pod.
    pub fn ip(&self, arguments: &str) -> Result<Value> {
        Netns::open(self.netns())?.run(|| ip(arguments))?
    }
}

impl Drop for ConformanceFixture {
    fn drop(&mut self) {
        let _ = self.pod.kill();
        let _ = self.pod.wait();
        if self.simulated {
            let _ = Simulation::down(&Root::default());
        }
    }
}

/// Run `ip -j` in the calling thread's namespace.
pub fn ip(arguments: &str) -> Result<Value> {
    let output = Command::new("ip").arg("-j").args(arguments.split_whitespace()).output()?;
    if !output.status.success() {
        bail!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout)? })
}

/// Interface names in the output of `ip link`, without `lo` and the bridges of the simulated fabric, which are
/// created on first use and stay.
pub fn link_names(links: &Value) -> Vec<String> {
    let links = links.as_array().into_iter().flatten();
    let names = links.filter_map(|link| link["ifname"].as_str());
    names.filter(|name| *name != "lo" && !name.starts_with("fbk")).map(str::to_owned).collect()
}
