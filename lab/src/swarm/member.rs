//! One node of a swarm: a node daemon with its own namespaces.

use crate::cluster::Lab;
use crate::command::{command, output};
use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A node daemon with its folders, namespaces and pod.
pub struct SwarmMember {
    /// Node name.
    pub name: String,
    /// UID of its pod.
    pub uid: String,
    root: PathBuf,
    /// Process that keeps the mount namespace alive.
    namespace_holder: Child,
    daemon: Mutex<Option<Child>>,
    lab: Lab,
    foreign_plugin: AtomicBool,
    /// Whether the daemon has assigned an address since its start.
    served: AtomicBool,
    start_daemon: Box<dyn Fn() -> Result<Child> + Send + Sync>,
}

impl SwarmMember {
    /// Creates folders and namespaces and starts the daemon.
    pub fn start(lab: &Lab, root: &Path, name: &str, daemon: &Path, cni: &Path) -> Result<Self> {
        for folder in ["run/ferroband", "var/lib/ferroband", "etc/cni/net.d", "opt/cni/bin"] {
            fs::create_dir_all(root.join(folder)).with_context(|| format!("cannot create {folder}"))?;
        }
        let bridge = r#"{"cniVersion":"1.0.0","name":"k8s","plugins":[{"type":"bridge"}]}"#;
        fs::write(root.join("etc/cni/net.d/10-k8s.conflist"), bridge).context("cannot write a conflist")?;
        fs::copy(cni, root.join("opt/cni/bin/whereabouts")).context("cannot copy the CNI program")?;
        // The plugin uses the host's root and writes the host's boot ID into its journals.
        let boot = "proc/sys/kernel/random/boot_id";
        fs::create_dir_all(root.join("proc/sys/kernel/random")).context("cannot create a folder")?;
        fs::copy(Path::new("/").join(boot), root.join(boot)).context("cannot copy the boot ID")?;
        // May be left over from a killed run.
        let _ = command("ip", ["netns", "delete", name]).stderr(Stdio::null()).status();
        output(&mut command("ip", ["netns", "add", name]))?;
        output(&mut command("ip", ["-n", name, "link", "set", "lo", "up"]))?;
        // As on a real machine: /run is a tmpfs, /var/lib is on disk.
        let script = format!(
            "mkdir -p /run/ferroband /var/lib/ferroband && mount -t tmpfs tmpfs {0}/run/ferroband && \
             mount --bind {0}/run/ferroband /run/ferroband && \
             mount --bind {0}/var/lib/ferroband /var/lib/ferroband && echo ready && exec sleep infinity",
            root.display()
        );
        let mut keeper = command("unshare", ["--mount", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start unshare")?;
        let mut ready = String::new();
        if let Some(out) = keeper.stdout.as_mut() {
            std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut ready)?;
        }
        if ready.trim() != "ready" {
            bail!("{name}: cannot create the mount namespace");
        }
        let uid = output(lab.kubectl()?.args(["get", "pod", name, "-o", "jsonpath={.metadata.uid}"]))?;
        let (program, kubeconfig, network, at, node, plugin) = (
            daemon.to_owned(),
            lab.kubeconfig(),
            lab.clone(),
            root.to_owned(),
            name.to_owned(),
            cni.to_owned(),
        );
        let spaces = format!("--mount=/proc/{}/ns/mnt", keeper.id());
        let start = Box::new(move || -> Result<Child> {
            let log = fs::File::options().create(true).append(true).open(at.join("log"))?;
            let mut command = network.in_network("nsenter");
            command
                .args([&*spaces, "--"])
                .arg(&program)
                .args(["node", "--node-name", &node, "--root"])
                .arg(&at)
                .arg("--cni-binary")
                .arg(&plugin);
            command.env("KUBECONFIG", &kubeconfig).stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
            command.spawn().context("cannot start a daemon")
        });
        let daemon = Mutex::new(Some(start()?));
        let (name, root, lab) = (name.to_owned(), root.to_owned(), lab.clone());
        let (foreign, served) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self {
            name,
            uid,
            root,
            namespace_holder: keeper,
            daemon,
            lab,
            foreign_plugin: foreign,
            served,
            start_daemon: start,
        })
    }

    /// Waits until the daemon responds.
    pub fn wait_ready(&self) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(120);
        let config = r#"{"cniVersion":"1.1.0","name":"swarm","type":"whereabouts"}"#;
        while !self.call_plugin("STATUS", "", "", config).is_ok_and(|answer| answer.0) {
            if Instant::now() > end {
                let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
                bail!("the daemon of {} is not ready\n{log}", self.name);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Records that the daemon has assigned an address.
    pub fn mark_served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    /// Whether the daemon has assigned an address since its start.
    pub fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Kills the daemon with SIGKILL and starts a new one.
    pub fn restart_daemon(&self) -> Result<()> {
        self.served.store(false, Ordering::Relaxed);
        let mut daemon = self.daemon.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(mut old) = daemon.take() {
            old.kill().context("cannot kill a daemon")?;
            old.wait().context("cannot wait for a daemon")?;
        }
        *daemon = Some((self.start_daemon)()?);
        Ok(())
    }

    /// Executes the plugin; returns whether it succeeded, and its output.
    pub fn call_plugin(
        &self,
        verb: &str,
        container: &str,
        interface: &str,
        config: &str,
    ) -> Result<(bool, Value)> {
        let plugin = self.root.join("opt/cni/bin/whereabouts");
        let spaces = format!("/proc/{}/ns/mnt", self.namespace_holder.id());
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={};K8S_POD_UID={}",
            self.name, self.uid
        );
        let prepare = |mut command: Command| -> Command {
            command.env("CNI_COMMAND", verb).env("CNI_CONTAINERID", container).env("CNI_IFNAME", interface);
            command.env("CNI_ARGS", &args).env("CNI_PATH", self.root.join("opt/cni/bin"));
            command.env("CNI_NETNS", format!("/run/netns/{}", self.name));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            command
        };
        // An upstream plugin talks to the API server itself.
        if self.foreign_plugin.load(Ordering::Relaxed) {
            let mut command = self.lab.in_network("nsenter");
            command.arg(format!("--mount={spaces}")).arg("--").arg(plugin);
            return run_plugin(prepare(command), config);
        }
        // A thread enters the namespace and ends with the call: nsenter would add to the measured time.
        std::thread::scope(|scope| {
            let call = scope.spawn(|| -> Result<(bool, Value)> {
                let keeper = fs::File::open(&spaces).context("the namespace holder is gone")?;
                unshare(CloneFlags::CLONE_FS)?;
                setns(keeper, CloneFlags::CLONE_NEWNS)?;
                run_plugin(prepare(Command::new(plugin)), config)
            });
            call.join().unwrap_or_else(|_| bail!("a call panicked"))
        })
    }

    /// Replaces the plugin with an upstream one.
    pub fn replace_plugin(&self, program: &Path) -> Result<()> {
        let plugin = self.root.join("opt/cni/bin/whereabouts");
        self.foreign_plugin.store(true, Ordering::Relaxed);
        fs::copy(program, plugin).map(drop).with_context(|| format!("cannot copy {}", program.display()))
    }

    /// Writes the configuration file that Whereabouts requires.
    pub fn write_whereabouts_config(&self) -> Result<PathBuf> {
        let file = self.root.join("whereabouts.conf");
        fs::write(&file, r#"{"datastore":"kubernetes"}"#).context("cannot write whereabouts.conf")?;
        Ok(file)
    }

    /// Adds the address to the member's `lo` or deletes it, so that the kernel has it as in a pod.
    pub fn change_lo_address(&self, verb: &str, address: &str) -> Result<()> {
        let bare = address.split_once('/').map_or(address, |(bare, _)| bare);
        output(&mut command("ip", ["-n", &self.name, "address", verb, bare, "dev", "lo"])).map(drop)
    }
}

/// Runs a plugin with a configuration on standard input.
fn run_plugin(mut command: Command, config: &str) -> Result<(bool, Value)> {
    let mut child = command.spawn().context("cannot start the plugin")?;
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin that has already failed does not read.
        let _ = stdin.write_all(config.as_bytes());
    }
    let end = child.wait_with_output().context("cannot wait for the plugin")?;
    Ok((end.status.success(), serde_json::from_slice(&end.stdout).unwrap_or(Value::Null)))
}

impl Drop for SwarmMember {
    /// Kills its processes and deletes its namespace.
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
        {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = self.namespace_holder.kill();
        let _ = self.namespace_holder.wait();
        let _ = command("ip", ["netns", "delete", &self.name]).stderr(Stdio::null()).status();
    }
}
