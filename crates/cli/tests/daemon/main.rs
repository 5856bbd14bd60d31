//! Tests of the node daemon as a separate process that uses a fake API server: start, requests, restart and
//! shutdown.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod api;
mod uninstall;

use api::FakeApiServer;
use ferroband_attach::{
    AttachmentId, PluginType,
    message::{CniCall, DaemonReply, DaemonRequest},
    pending_release::PendingRelease,
    socket::Channel,
    socket_path,
};
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::net::UnixStream,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The file system of a node on which daemons are started and stopped.
struct DaemonFixture {
    folder: TempDir,
    root: Root,
}

/// A running daemon; killed on drop.
struct DaemonProcess(Child);

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl DaemonProcess {
    fn terminate(mut self) -> ExitStatus {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap()
    }
}

impl DaemonFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path().join("root"));
        fs::create_dir_all(root.path("etc/cni/net.d")).unwrap();
        let bridge = json!({"cniVersion": "1.0.0", "name": "k8s", "plugins": [{"type": "bridge"}]});
        fs::write(root.path("etc/cni/net.d/10-k8s.conflist"), bridge.to_string()).unwrap();
        fs::write(folder.path().join("ferroband-cni"), "a program").unwrap();
        let random = root.path("proc/sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), "11111111-2222-3333-4444-555555555555\n").unwrap();
        Self { folder, root }
    }

    fn start(&self, kubeconfig: &str) -> DaemonProcess {
        let path = self.folder.path().join("kubeconfig");
        fs::write(&path, kubeconfig).unwrap();
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_ferroband"))
            .args(["node", "--node-name=n1", "--alias=ipoib"])
            .arg("--root")
            .arg(self.root.base())
            .arg("--cni-binary")
            .arg(self.folder.path().join("ferroband-cni"))
            .env("KUBECONFIG", path)
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        DaemonProcess(child)
    }

    fn is_ready(&self) -> bool {
        ferroband_node::readiness::check(&self.root).is_ok()
    }

    fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            if start.elapsed() > Duration::from_secs(20) {
                panic!(
                    "timeout waiting for {what}\n{}",
                    fs::read_to_string(self.folder.path().join("log")).unwrap()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn request(&self, request: &DaemonRequest) -> DaemonReply {
        request_on(&mut self.connect(), request)
    }

    fn connect(&self) -> Channel {
        Channel::from(UnixStream::connect(socket_path(&self.root)).unwrap())
    }

    fn conflist(&self) -> Option<Value> {
        let text = fs::read_to_string(self.root.path("etc/cni/net.d/00-ferroband.conflist")).ok()?;
        serde_json::from_str(&text).ok()
    }
}

fn request_on(channel: &mut Channel, request: &DaemonRequest) -> DaemonReply {
    channel.set_timeout(Some(Duration::from_secs(30))).unwrap();
    channel.send(request).unwrap();
    channel.recv().unwrap()
}

fn add_request(container: &str) -> DaemonRequest {
    let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "uid-a".into() };
    let config = json!({"cniVersion": "1.0.0", "name": "k8s", "type": "ferroband"});
    DaemonRequest::Add(CniCall {
        container: container.into(),
        ifname: "eth0".into(),
        pod: Some(pod),
        config,
        ips: Vec::new(),
    })
}

/// A request for an address of a network that needs no interface on this host.
fn assign_request(container: &str) -> DaemonRequest {
    let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "uid-a".into() };
    let config = json!({"name": "x", "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}});
    DaemonRequest::Assign(CniCall {
        container: container.into(),
        ifname: "net1".into(),
        pod: Some(pod),
        config,
        ips: Vec::new(),
    })
}

/// Returns the field `what` of a JSON log line, which names the watched kind.
fn watched_kind(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap()["what"].to_string()
}

#[test]
fn cni_configuration_is_installed_once_ready_and_kept_after_a_stop() {
    let fixture = DaemonFixture::new();
    // The daemon starts before the API server, so it must not install its CNI configuration yet.
    let server = FakeApiServer::reserve();
    let daemon = fixture.start(&server.kubeconfig());
    fixture.wait_until("the socket", || UnixStream::connect(socket_path(&fixture.root)).is_ok());
    assert!(matches!(fixture.request(&DaemonRequest::Status), DaemonReply::Fault(_)));
    assert_eq!(fixture.conflist(), None, "not installed while the daemon cannot serve");
    std::thread::sleep(Duration::from_secs(1));
    let log = fs::read_to_string(fixture.folder.path().join("log")).unwrap();
    let mut failures: Vec<_> =
        log.lines().filter(|line| line.contains("cannot watch")).map(watched_kind).collect();
    let logged = failures.len();
    failures.sort();
    failures.dedup();
    assert!(logged >= 3 && logged == failures.len(), "each failure is logged once:\n{log}");

    let server = server.start();
    server.put("/api/v1/pods", json!({"metadata": {"name": "a", "namespace": "default", "uid": "uid-a"}}));
    fixture.wait_until("readiness", || fixture.is_ready());
    assert_eq!(fixture.conflist().unwrap()["plugins"][0]["type"], "ferroband");
    assert_eq!(fs::read_to_string(fixture.root.path("opt/cni/bin/ferroband")).unwrap(), "a program");
    assert_eq!(fs::read_to_string(fixture.root.path("opt/cni/bin/ipoib")).unwrap(), "a program");
    fixture.wait_until("the node's label", || server.calls().contains(&"PATCH /api/v1/nodes/n1".to_owned()));

    let DaemonReply::Plan(plan) = fixture.request(&add_request("c1")) else { panic!() };
    assert_eq!(plan.attachments.len(), 1);

    assert!(daemon.terminate().success());
    assert!(fixture.conflist().is_some(), "kept while the daemon is down");
    assert!(!fixture.is_ready());
    let daemon = fixture.start(&server.kubeconfig());
    fixture.wait_until("readiness after a restart", || fixture.is_ready());
    drop(daemon);
}

#[test]
fn pending_releases_and_assignments_survive_a_restart() {
    let fixture = DaemonFixture::new();
    let server = FakeApiServer::reserve().start();
    server.put("/api/v1/pods", json!({"metadata": {"name": "a", "namespace": "default", "uid": "uid-a"}}));
    let daemon = fixture.start(&server.kubeconfig());
    fixture.wait_until("readiness", || fixture.is_ready());
    let DaemonReply::Addresses(first) = fixture.request(&assign_request("c1")) else { panic!() };
    let block = "/apis/ferroband.io/v1alpha1/addressblocks/default-192.168.0.0";
    let used = || server.get(block).unwrap()["spec"]["entries"].as_object().unwrap().len();
    assert_eq!(used(), 1);

    drop(daemon); // kill -9
    PendingRelease::new(&AttachmentId::new(PluginType::Whereabouts, "c1", "net1"), None)
        .write(&fixture.root)
        .unwrap();
    let daemon = fixture.start(&server.kubeconfig());
    fixture.wait_until("the release", || used() == 0);
    fixture
        .wait_until("removal of the file", || fs::read_dir(fixture.root.state("owed")).unwrap().count() == 0);

    let DaemonReply::Addresses(again) = fixture.request(&assign_request("c2")) else { panic!() };
    assert_eq!(first[0].ips, again[0].ips, "the address is free again");
    // The pod must keep its address when the daemon is restarted.
    drop(daemon);
    let _daemon = fixture.start(&server.kubeconfig());
    fixture.wait_until("readiness", || fixture.is_ready());
    let DaemonReply::Addresses(kept) = fixture.request(&assign_request("c2")) else { panic!() };
    assert_eq!(kept[0].ips, again[0].ips);
    assert_eq!(used(), 1);
}

#[test]
fn add_in_progress_is_finished_before_shutdown() {
    let fixture = DaemonFixture::new();
    let server = FakeApiServer::reserve().start();
    server.put("/api/v1/pods", json!({"metadata": {"name": "a", "namespace": "default", "uid": "uid-a"}}));
    let daemon = fixture.start(&server.kubeconfig());
    fixture.wait_until("readiness", || fixture.is_ready());
    let mut channel = fixture.connect();
    let DaemonReply::Plan(_) = request_on(&mut channel, &add_request("c1")) else { panic!() };

    let ending = std::thread::spawn(move || daemon.terminate());
    fixture.wait_until("no new calls", || UnixStream::connect(socket_path(&fixture.root)).is_err());
    assert_eq!(request_on(&mut channel, &DaemonRequest::Addresses), DaemonReply::Addresses(Vec::new()));
    let result =
        json!({"interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": [{"address": "10.0.0.2/24"}]});
    let outcome = ferroband_attach::message::AttachmentOutcome { attachment: 0, result, device_info: None };
    assert_eq!(request_on(&mut channel, &DaemonRequest::Attached(vec![outcome])), DaemonReply::Done);
    assert!(server.calls().contains(&"PATCH /api/v1/namespaces/default/pods/a/status".to_owned()));
    assert!(!ending.is_finished(), "the connection is still open");
    drop(channel);
    assert!(ending.join().unwrap().success());
}

#[test]
fn crds_are_applied_and_foreign_ones_are_kept() {
    let server = FakeApiServer::reserve().start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("kubeconfig");
    fs::write(&config, server.kubeconfig()).unwrap();
    let apply = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_ferroband"));
        program.args(["crds", "apply"]).args(more).env("KUBECONFIG", &config).output().unwrap()
    };
    let done = apply(&[]);
    assert!(done.status.success(), "{done:?}");
    let output = String::from_utf8(done.stdout).unwrap();
    assert!(output.contains("applied      addressblocks.ferroband.io\n"), "{output}");
    assert!(output.lines().last().unwrap().starts_with("established  all "), "{output}");

    let name = "network-attachment-definitions.k8s.cni.cncf.io";
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut foreign = server.get(&format!("{path}/{name}")).unwrap();
    foreign["metadata"]["labels"] = json!({"foreign": "true"});
    server.put(path, foreign);
    let again = apply(&[]);
    assert!(again.status.success(), "{again:?}");
    let output = String::from_utf8(again.stdout).unwrap();
    assert!(output.contains(&format!("kept         {name}")), "{output}");
}

#[test]
fn metrics_are_served_and_invalid_device_config_is_reported() {
    let fixture = DaemonFixture::new();
    let server = FakeApiServer::reserve().start();
    let port = fixture.root.sys("class/infiniband/mlx5_0/ports/1");
    fs::create_dir_all(port.join("counters")).unwrap();
    fs::write(port.join("counters/symbol_error"), "3\n").unwrap();
    let devices = fixture.folder.path().join("devices.json");
    fs::write(&devices, r#"{"resourceList":[{"resourceName":"r","selectors":{"pfName":["ib0"]}}]}"#).unwrap();
    let kubeconfig = fixture.folder.path().join("kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let log = fixture.folder.path().join("log");
    // Select a free port. The listener is closed immediately, so another process could take the port. The
    // daemon would then retry.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_ferroband"))
        .args(["node", "--node-name=n1", "--cni-binary=/bin/true", "--root"])
        .arg(fixture.root.base())
        .arg("--device-config")
        .arg(&devices)
        .arg(format!("--metrics-address={address}"))
        .env("KUBECONFIG", kubeconfig)
        .stderr(fs::File::create(&log).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let daemon = DaemonProcess(child);
    let scrape = || -> Option<String> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: n1\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        Some(page)
    };
    fixture.wait_until("metrics", || scrape().is_some());
    let page = scrape().unwrap();
    let line =
        page.lines().find(|line| line.starts_with("rdma_symbol_error_total{node_name=\"n1\"")).unwrap();
    assert!(line.ends_with(" 3"), "{line}");
    fs::write(port.join("counters/symbol_error"), "4\n").unwrap();
    assert!(scrape().unwrap().contains("port=\"1\"} 4\n"), "counters are read on each scrape");

    let patch = "PATCH /api/v1/nodes/n1/status".to_owned();
    fixture.wait_until("the node's condition", || server.calls().contains(&patch));
    let output = fs::read_to_string(&log).unwrap();
    assert!(output.contains("devices.json: resourceList[0].selectors.pfName: unknown"), "{output}");
    assert!(daemon.terminate().success());
}
