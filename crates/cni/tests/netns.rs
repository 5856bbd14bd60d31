//! Tests that run the binary as a process on simulated hardware and send it real signals. They need root.
//!
//! Each test has its own mount namespace with an empty /run and /var/lib, and its own network namespace as "the host".

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use ferroband_kernel::{Netns, Root};
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

struct CniProcessFixture {
    folder: tempfile::TempDir,
    pod: Child,
}

impl CniProcessFixture {
    fn new() -> Self {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).expect("these tests need root");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        for folder in ["/run", "/var/lib"] {
            mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), none).unwrap();
        }
        Simulation::up(&Root::default(), Profile::default(), SimulationOptions::default()).unwrap();
        let pod = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap();
        let fixture = Self { folder: tempfile::tempdir().unwrap(), pod };
        let own = Netns::current().unwrap().id();
        wait_until(|| Netns::open(fixture.netns()).is_ok_and(|netns| netns.id() != own));
        fixture
    }

    fn netns(&self) -> String {
        format!("/proc/{}/ns/net", self.pod.id())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Install a slow IPAM plugin that holds a lease from ADD to DEL.
    fn slow_ipam(&self, seconds: &str) {
        let script = format!(
            "#!/bin/sh\ncat > /dev/null\ncd {}\ncase $CNI_COMMAND in\n\
             ADD) touch lease; sleep {seconds}; touch lease; echo '{{\"ips\":[{{\"address\":\"10.1.1.5/24\"}}]}}';;\n\
             DEL) rm -f lease;; esac\n",
            self.folder.path().display()
        );
        fs::write(self.file("slow"), script).unwrap();
        fs::set_permissions(self.file("slow"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn start(&self, command: &str) -> Child {
        let config = json!({
            "cniVersion": "1.0.0", "name": "n", "type": "ipoib", "master": "ib0", "ipam": {"type": "slow"},
        });
        let mut child = Command::new(env!("CARGO_BIN_EXE_ferroband-cni"))
            .arg0("/opt/cni/bin/ipoib")
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", "c1")
            .env("CNI_IFNAME", "net1")
            .env("CNI_NETNS", self.netns())
            .env("CNI_PATH", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
        child
    }

    fn run(&self, command: &str) -> Output {
        self.start(command).wait_with_output().unwrap()
    }

    /// The pod's interface net1 as shown by `ip -j`; `None` if it does not exist.
    fn net1(&self) -> Option<Value> {
        let netns = Netns::open(self.netns()).unwrap();
        let output = netns.run(|| Command::new("ip").args(["-j", "address", "show", "dev", "net1"]).output());
        let output = output.unwrap().unwrap();
        output.status.success().then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].clone())
    }

    fn assert_clean(&self) {
        assert!(self.net1().is_none(), "net1 is left in the pod");
        assert!(!self.file("lease").exists(), "the lease is left");
        let root = Root::default();
        for folder in [root.state("journal"), root.state("owed"), root.run("ferroband/lock")] {
            let left = fs::read_dir(&folder).map(|entries| entries.count()).unwrap_or_default();
            assert_eq!(left, 0, "files left in {}", folder.display());
        }
        let output = Command::new("ip").args(["-j", "link", "show", "type", "veth"]).output().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), json!([]));
    }
}

impl Drop for CniProcessFixture {
    fn drop(&mut self) {
        let _ = self.pod.kill();
        let _ = self.pod.wait();
        let _ = Simulation::down(&Root::default());
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "timed out");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn add_and_del_succeed_on_the_simulated_hca() {
    let fixture = CniProcessFixture::new();
    fixture.slow_ipam("0");
    let output = fixture.run("ADD");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{result}");
    let net1 = fixture.net1().unwrap();
    assert_eq!((&net1["addr_info"][0]["local"], &net1["mtu"]), (&json!("10.1.1.5"), &json!(2044)));
    assert_eq!(result["interfaces"][0]["mac"], net1["address"]);
    assert!(Path::new("/var/lib/ferroband/journal/c1:net1:ipoib.json").exists());
    assert!(fixture.run("DEL").status.success());
    fixture.assert_clean();
}

#[test]
fn sigterm_rolls_back_the_add() {
    let fixture = CniProcessFixture::new();
    fixture.slow_ipam("1");
    let add = fixture.start("ADD");
    wait_until(|| fixture.file("lease").exists());
    kill(Pid::from_raw(add.id() as i32), Signal::SIGTERM).unwrap();
    let output = add.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &reply["code"]), (Some(1), &json!(11)), "{reply}");
    fixture.assert_clean();
}

#[test]
fn del_after_kill_9_waits_for_the_orphaned_plugin() {
    let fixture = CniProcessFixture::new();
    fixture.slow_ipam("1");
    let mut add = fixture.start("ADD");
    wait_until(|| fixture.file("lease").exists());
    add.kill().unwrap();
    add.wait().unwrap();
    assert!(fixture.net1().is_some(), "it must be killed half-way");
    // The orphaned IPAM plugin creates its lease file again before it exits. A DEL that did not wait for the
    // plugin would leave that file behind.
    assert!(fixture.run("DEL").status.success());
    fixture.assert_clean();
    thread::sleep(Duration::from_millis(1500));
    fixture.assert_clean();
}

#[test]
fn del_after_kill_9_at_any_time_leaves_nothing() {
    let fixture = CniProcessFixture::new();
    fixture.slow_ipam("0.05");
    let begun = Instant::now();
    assert!(fixture.run("ADD").status.success());
    let duration = begun.elapsed();
    assert!(fixture.run("DEL").status.success());
    for moment in 0..24 {
        let mut add = fixture.start("ADD");
        thread::sleep(duration * moment / 20);
        let _ = add.kill();
        add.wait().unwrap();
        assert!(fixture.run("DEL").status.success());
        fixture.assert_clean();
    }
}
