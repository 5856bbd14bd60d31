//! End-to-end test of one node in its own network namespace: the daemon process with simulated hardware, a fake API
//! server, and CNI calls like those of a container runtime.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "daemon/api.rs"]
#[expect(dead_code, reason = "used by the other test crate")]
mod api;
#[path = "device_plugin/alone.rs"]
mod device_plugin;
#[path = "netns/dry_run.rs"]
mod dry_run;

use api::FakeApiServer;
use ferroband_attach::{CniContext, CniEnvironment, POD_ANNOTATIONS_CAPABILITY, PluginType, run, serve_call};
use ferroband_kernel::Root;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pod's network namespace, which a sleeping process keeps open.
struct CliSandbox {
    process: KillOnDrop,
    pod: &'static str,
}

impl CliSandbox {
    fn new(pod: &'static str) -> Self {
        let sleeping = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap();
        let sandbox = Self { process: KillOnDrop(sleeping), pod };
        // Until unshare(1) has called unshare(2), the process is in the test's namespace.
        let own_namespace = fs::read_link("/proc/thread-self/ns/net").unwrap();
        wait_until("a namespace", || fs::read_link(sandbox.netns()).unwrap() != own_namespace);
        sandbox
    }

    fn netns(&self) -> String {
        format!("/proc/{}/ns/net", self.process.0.id())
    }

    fn run_inside(&self, command: &[&str]) -> (bool, String) {
        let output =
            Command::new("nsenter").arg(format!("--net={}", self.netns())).args(command).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    /// The IPv4 addresses of `net1`; empty if the interface does not exist.
    fn addresses(&self) -> Vec<String> {
        let (exists, text) = self.run_inside(&["ip", "-j", "-4", "addr", "show", "net1"]);
        if !exists {
            return Vec::new();
        }
        let links: Value = serde_json::from_str(&text).unwrap();
        let addresses = links[0]["addr_info"].as_array().unwrap();
        addresses.iter().map(|a| format!("{}/{}", a["local"].as_str().unwrap(), a["prefixlen"])).collect()
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "timeout waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The file system of a node on which a plugin for the cluster's default network is installed.
struct CliNodeFixture {
    folder: tempfile::TempDir,
    root: Root,
}

impl CliNodeFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path().join("root"));
        fs::create_dir_all(root.path("etc/cni/net.d")).unwrap();
        fs::create_dir_all(root.path("opt/cni/bin")).unwrap();
        std::os::unix::fs::symlink("/proc", root.path("proc")).unwrap();
        // This script is the default network plugin. It creates no interface.
        let plugin = root.path("opt/cni/bin/fakenet");
        let script = "#!/bin/sh\ncat > /dev/null\n[ $CNI_COMMAND = ADD ] || exit 0\n\
            echo '{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.1.0.5/24\"}]}'\n";
        fs::write(&plugin, script).unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
        let list = json!({"cniVersion": "1.0.0", "name": "k8s", "plugins": [{"type": "fakenet"}]});
        fs::write(root.path("etc/cni/net.d/10-k8s.conflist"), list.to_string()).unwrap();
        Self { folder, root }
    }

    fn start_daemon(&self, server: &FakeApiServer) -> KillOnDrop {
        let config = self.folder.path().join("kubeconfig");
        fs::write(&config, server.kubeconfig()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_ferroband"))
            .args(["node", "--node-name=n1", "--simulate=default", "--cni-binary=/bin/true", "--root"])
            .arg(self.root.base())
            .env("KUBECONFIG", config)
            .stderr(fs::File::create(self.folder.path().join("log")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = KillOnDrop(child);
        wait_until("the configuration", || self.conflist().exists());
        daemon
    }

    fn conflist(&self) -> std::path::PathBuf {
        self.root.path("etc/cni/net.d/00-ferroband.conflist")
    }

    /// Calls the CNI plugin as a container runtime does. Returns the exit status and the JSON output.
    fn call_cni(&self, command: &str, sandbox: &CliSandbox) -> (u8, Value) {
        let list: Value = serde_json::from_str(&read(&self.conflist())).unwrap();
        let mut config = list["plugins"][0].clone();
        config["cniVersion"] = list["cniVersion"].clone();
        config["name"] = list["name"].clone();
        // A runtime passes what the configuration has a capability for.
        assert_eq!(config["capabilities"][POD_ANNOTATIONS_CAPABILITY], true);
        config["runtimeConfig"] = json!({POD_ANNOTATIONS_CAPABILITY: pod_annotations(sandbox.pod)});
        let pod = sandbox.pod;
        let arguments =
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_UID=uid-{pod}");
        let variables: CniEnvironment = [
            ("CNI_COMMAND", command.to_owned()),
            ("CNI_CONTAINERID", format!("c-{pod}")),
            ("CNI_NETNS", sandbox.netns()),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_ARGS", arguments),
            ("CNI_PATH", self.root.path("opt/cni/bin").display().to_string()),
        ]
        .into_iter()
        .collect();
        let mut out = Vec::new();
        let mut stdin = &*config.to_string().into_bytes();
        let status = serve_call(PluginType::Ferroband, &variables, &mut stdin, &mut out, |call, out| {
            let host = ferroband_sim::host(&self.root).unwrap();
            run(&CniContext::new(&self.root, host.as_ref()), PluginType::Ferroband, call, out)
        });
        (status, serde_json::from_slice(&out).unwrap_or(Value::Null))
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The annotations of the test's pods. The pod `plain` requests no network.
fn pod_annotations(pod: &str) -> Value {
    match pod {
        "plain" => json!({"kubernetes.io/config.source": "api"}),
        "lost" => json!({"k8s.v1.cni.cncf.io/networks": "elsewhere"}),
        _ => json!({"k8s.v1.cni.cncf.io/networks": "jarvice-ipoib"}),
    }
}

fn put_pod(server: &FakeApiServer, name: &str) {
    let annotations = pod_annotations(name);
    let metadata = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "annotations": annotations});
    server.put("/api/v1/pods", json!({"metadata": metadata}));
}

fn put_network(server: &FakeApiServer, name: &str, master: &str) {
    let ipam = json!({"type": "whereabouts", "range": "192.168.0.0/24"});
    let config =
        json!({"cniVersion": "0.3.1", "type": "ipoib", "name": name, "master": master, "ipam": ipam});
    let object = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()},
    });
    server.put("/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", object);
}

#[test]
fn two_pods_reach_each_other_and_leave_nothing_behind() {
    unshare(CloneFlags::CLONE_NEWNET).expect("this test needs root");
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let server = FakeApiServer::reserve().start();
    put_network(&server, "jarvice-ipoib", "ib0");
    put_network(&server, "elsewhere", "ib7");
    for name in ["a", "b", "lost", "plain"] {
        put_pod(&server, name);
    }
    let node = CliNodeFixture::new();
    let daemon = node.start_daemon(&server);
    // The daemon sets this label when it registers the node. Then the node can reserve an address block.
    wait_until("the node's label", || server.calls().contains(&"PATCH /api/v1/nodes/n1".to_owned()));
    let before = server.calls().len();

    let (a, b) = (CliSandbox::new("a"), CliSandbox::new("b"));
    for sandbox in [&a, &b] {
        let (status, result) = node.call_cni("ADD", sandbox);
        assert_eq!(status, 0, "{result}\n{}", read(&node.folder.path().join("log")));
        assert_eq!(result["ips"][0]["address"], "10.1.0.5/24", "the runtime sees only the default network");
    }
    assert_eq!(
        (a.addresses(), b.addresses()),
        (vec!["192.168.0.1/24".into()], vec!["192.168.0.2/24".into()])
    );
    assert!(a.run_inside(&["ping", "-c1", "-W5", "192.168.0.2"]).0, "over the simulated fabric");

    let blocks = "/apis/ferroband.io/v1alpha1/addressblocks";
    let block = format!("{blocks}/default-192.168.0.0");
    let used = || server.get(&block).unwrap()["spec"]["entries"].as_object().unwrap().len();
    let status = |pod: &str| format!("PATCH /api/v1/namespaces/default/pods/{pod}/status");
    // Compare only requests for pods and address blocks, because the daemon may update the Node object at any
    // time.
    let about = |call: &String| call.contains("/pods") || call.contains("/addressblocks");
    let calls: Vec<_> = server.calls().split_off(before).into_iter().filter(about).collect();
    assert_eq!(calls, [format!("PATCH {block}"), status("a"), format!("PUT {block}"), status("b")]);

    let (refused, error) = node.call_cni("ADD", &CliSandbox::new("lost"));
    assert_eq!((refused, &error["code"]), (1, &json!(103)), "{error}");
    assert!(error["msg"].as_str().unwrap().contains("ib7"), "{error}");

    // Pod a is deleted while the daemon runs, pod b while it is down. Both addresses must be released, that
    // of b after the restart.
    assert_eq!(node.call_cni("DEL", &a).0, 0);
    drop(daemon);
    assert_eq!(node.call_cni("DEL", &b).0, 0);
    assert_eq!((a.addresses(), b.addresses()), (vec![], vec![]));
    assert_eq!(used(), 1, "the release is pending");
    // A pod without networks starts while the daemon is down, and gets its status after the restart.
    let plain = CliSandbox::new("plain");
    let (started, result) = node.call_cni("ADD", &plain);
    assert_eq!((started, &result["ips"][0]["address"]), (0, &json!("10.1.0.5/24")), "{result}");
    assert!(!server.calls().contains(&status("plain")));
    let _daemon = node.start_daemon(&server);
    wait_until("the plain pod's status", || server.calls().contains(&status("plain")));
    assert_eq!(node.call_cni("DEL", &plain).0, 0);
    wait_until("the release", || used() == 0);
    let entries = |folder: &str| fs::read_dir(node.root.state(folder)).unwrap().count();
    wait_until("the pending release", || entries("owed") == 0);
    assert_eq!(entries("journal"), 0);
}
