//! Test fixtures: a host, pods, plugins and a state directory.

use crate::veth_fabric::VethFabric;
use ferroband_attach::{CallTimeouts, CniContext, CniEnvironment, Error, Invocation, PluginType};
use ferroband_kernel::{Netns, Root};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A host namespace with a state directory and plugin scripts.
pub struct AttachFixture {
    pub root: Root,
    pub fabric: VethFabric,
    pub timeouts: CallTimeouts,
    folder: tempfile::TempDir,
}

impl AttachFixture {
    /// Moves the calling thread into a new network namespace with the IPoIB interface `ib0`. The thread stays
    /// there.
    pub fn new() -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        let folder = tempfile::tempdir().unwrap();
        symlink("/proc", folder.path().join("proc")).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::create_dir(folder.path().join("leases")).unwrap();
        host_ip(&["link", "add", "ib0", "type", "bridge"]);
        let patience = CallTimeouts {
            daemon_connect: Duration::from_millis(300),
            best_effort: Duration::from_millis(500),
            daemon_reply: Duration::from_secs(5),
            lock: Duration::from_secs(5),
            ipv6_dad: Duration::from_secs(5),
            device_ready: Duration::from_secs(5),
        };
        Self { root: Root::at(folder.path()), fabric: VethFabric::default(), timeouts: patience, folder }
    }

    pub fn context(&self) -> CniContext<'_> {
        CniContext { timeouts: self.timeouts, ..CniContext::new(&self.root, &self.fabric) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `CNI_PATH`: the test's scripts, then Debian's plugins.
    pub fn cni_path(&self) -> String {
        format!("{}:/usr/lib/cni", self.path("bin").display())
    }

    /// Install a shell script as a plugin. The script can use `$LOG`, `$LEASES` and `$IN` (its standard input).
    pub fn install_plugin(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        let (log, leases) = (self.path("log"), self.path("leases"));
        let head = format!("#!/bin/sh\nLOG={}\nLEASES={}\nIN=$(cat)\n", log.display(), leases.display());
        fs::write(&file, format!("{head}echo \"$CNI_COMMAND {name} $CNI_IFNAME\" >> $LOG\n{script}\n"))
            .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Install a plugin that holds a lease from ADD to DEL and returns `address`.
    pub fn install_leasing_plugin(&self, name: &str, address: &str) {
        let result = json!({"cniVersion": "1.0.0", "ips": [{"address": address, "gateway": "10.9.0.1"}]});
        self.install_plugin(
            name,
            &format!(
                "lease=$LEASES/{name}-$CNI_CONTAINERID-$CNI_IFNAME\n\
                 case $CNI_COMMAND in ADD) touch $lease; echo '{result}';; DEL) rm -f $lease;; esac"
            ),
        );
    }

    /// Calls of the plugin scripts since the last `take_log`, in order.
    pub fn take_log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("log")).unwrap_or_default();
        fs::remove_file(self.path("log")).ok();
        text.lines().map(str::to_owned).collect()
    }

    pub fn files(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn journals(&self) -> Vec<String> {
        let mut files = self.files(&self.root.state("journal"));
        files.extend(self.files(&self.root.run("ferroband/journal")));
        files
    }

    pub fn pending_releases(&self) -> Vec<String> {
        self.files(&self.root.state("owed"))
    }

    /// Assert that no interface, rule, state file or lease is left.
    pub fn assert_clean(&self) {
        let names = link_names(&host_ip(&["link", "show"]));
        let left: Vec<_> =
            names.iter().filter(|name| !["lo", "ib0", "cni0"].contains(&name.as_str())).collect();
        assert!(left.is_empty(), "interfaces left in the host: {left:?}");
        let rules = host_ip(&["rule", "show"]);
        assert_eq!(rules.as_array().unwrap().len(), 3, "rules left in the host: {rules}");
        assert_eq!(self.journals(), [""; 0], "journals");
        assert_eq!(self.files(&self.root.run("ferroband/lock")), [""; 0], "locks");
        assert_eq!(self.files(&self.path("leases")), [""; 0], "leases");
    }

    pub fn call(
        &self,
        command: &str,
        container: &str,
        ifname: &str,
        netns: &str,
        config: &Value,
    ) -> Invocation {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=ipoib-test;K8S_POD_UID=u-1";
        invocation(command, (container, ifname), netns, (args, &self.cni_path()), config)
    }

    /// Run a call and return its printed result.
    pub fn run(
        &self,
        plugin_type: PluginType,
        command: &str,
        (container, ifname): (&str, &str),
        netns: &str,
        config: &Value,
    ) -> Result<Value, Error> {
        self.run_on(&self.context(), plugin_type, &self.call(command, container, ifname, netns, config))
    }

    pub fn run_on(
        &self,
        context: &CniContext<'_>,
        plugin_type: PluginType,
        call: &Invocation,
    ) -> Result<Value, Error> {
        let mut out = Vec::new();
        ferroband_attach::run(context, plugin_type, call, &mut out)?;
        Ok(if out.is_empty() { Value::Null } else { serde_json::from_slice(&out).unwrap() })
    }
}

/// A pod's network namespace, kept alive by a thread.
pub struct PodNetnsFixture {
    pub path: String,
    pub netns: Option<Netns>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PodNetnsFixture {
    pub fn new() -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let (sender, path) = mpsc::channel();
        let thread = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let (process, thread) = (nix::unistd::getpid(), nix::unistd::gettid());
            sender.send(format!("/proc/{process}/task/{thread}/ns/net")).unwrap();
            let _ = stopped.recv();
        });
        let path = path.recv().unwrap();
        let netns = Some(Netns::open(&path).unwrap());
        Self { path, netns, stop: Some(stop), thread: Some(thread) }
    }

    /// Run `ip -j` in the namespace.
    pub fn ip(&self, arguments: &[&str]) -> Value {
        self.netns.as_ref().unwrap().run(|| host_ip(arguments)).unwrap()
    }

    pub fn link_names(&self) -> Vec<String> {
        link_names(&self.ip(&["link", "show"])).into_iter().filter(|name| name != "lo").collect()
    }

    /// The interface `name` with its details and addresses, from `ip -j`.
    pub fn interface(&self, name: &str) -> Value {
        self.ip(&["-d", "address", "show", "dev", name])[0].clone()
    }

    pub fn addresses(&self, name: &str) -> Vec<String> {
        let info = self.interface(name);
        let infos = info["addr_info"].as_array().unwrap().iter();
        infos
            .filter(|info| info["scope"] == "global")
            .map(|info| format!("{}/{}", info["local"].as_str().unwrap(), info["prefixlen"]))
            .collect()
    }

    /// Delete the namespace without a DEL.
    pub fn delete_netns(&mut self) {
        self.netns = None;
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        wait_until(|| !Path::new(&self.path).exists());
    }
}

impl Drop for PodNetnsFixture {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Run `ip -j` in the calling thread's namespace.
pub fn host_ip(arguments: &[&str]) -> Value {
    let output = Command::new("ip").arg("-j").args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments:?}: {stderr}");
    if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout).unwrap() }
}

pub fn link_names(links: &Value) -> Vec<String> {
    let links = links.as_array().unwrap().iter();
    links.map(|link| link["ifname"].as_str().unwrap().to_owned()).collect()
}

/// Poll until `done` returns true, for asynchronous kernel operations.
pub fn wait_until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !done() {
        assert!(Instant::now() < end, "timed out");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Build a call as a runtime would, for an interface of a container; `more` is `CNI_ARGS` and `CNI_PATH`.
pub fn invocation(
    command: &str,
    (container, ifname): (&str, &str),
    netns: &str,
    more: (&str, &str),
    config: &Value,
) -> Invocation {
    let variables = CniEnvironment::from_iter([
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", container),
        ("CNI_IFNAME", ifname),
        ("CNI_NETNS", netns),
        ("CNI_ARGS", more.0),
        ("CNI_PATH", more.1),
    ]);
    let command = variables.command().unwrap().unwrap();
    Invocation::read(command, &variables, &mut config.to_string().as_bytes()).unwrap()
}
