//! The `whereabouts` plugin, called by somebody else's.

use crate::daemon::{ScriptedDaemon, ScriptedDaemonState};
use crate::meta::assigned_addresses;
use crate::stage::{AttachFixture, PodNetnsFixture};
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn config() -> Value {
    json!({"cniVersion": "1.0.0", "name": "n", "type": "bridge", "ipam": {"type": "whereabouts", "range": "10.6.0.0/24"}})
}

fn start(stage: &AttachFixture) -> ScriptedDaemon {
    let ledger = ScriptedDaemonState {
        assigned: vec![assigned_addresses(0, "10.6.0.5/24")],
        ..ScriptedDaemonState::default()
    };
    ScriptedDaemon::start(&stage.root, ledger)
}

fn run(stage: &AttachFixture, command: &str, pod: &PodNetnsFixture) -> Result<Value, Error> {
    stage.run(PluginType::Whereabouts, command, ("c1", "net1"), &pod.path, &config())
}

#[test]
fn add_check_and_del() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let daemon = start(&stage);
    let result = run(&stage, "ADD", &pod).unwrap();
    let expected = json!({
        "cniVersion": "1.0.0", "ips": [{"address": "10.6.0.5/24"}], "routes": [{"dst": "172.30.0.0/16"}],
    });
    assert_eq!(result, expected);
    assert_eq!(run(&stage, "ADD", &pod).unwrap(), expected, "asked again, the same is said");
    assert_eq!(run(&stage, "CHECK", &pod).unwrap(), Value::Null);
    run(&stage, "DEL", &pod).unwrap();
    run(&stage, "DEL", &pod).unwrap();
    assert_eq!(daemon.take_requests(), ["Assign", "Assign", "Release", "Release"]);
    assert_eq!(daemon.held_containers(), [""; 0]);
    stage.assert_clean();
    assert_eq!(run(&stage, "CHECK", &pod).unwrap_err().code(), 3);
}

#[test]
fn no_address_is_an_error_and_is_released() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let daemon = ScriptedDaemon::start(&stage.root, ScriptedDaemonState::default());
    assert_eq!(run(&stage, "ADD", &pod).unwrap_err().fault().code.reason(), "PoolExhausted");
    assert_eq!(daemon.take_requests(), ["Assign", "Release"]);
    stage.assert_clean();
}

#[test]
fn without_the_daemon_add_waits_and_del_owes() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    assert_eq!(run(&stage, "ADD", &pod).unwrap_err().code(), 11);
    let mut daemon = start(&stage);
    run(&stage, "ADD", &pod).unwrap();
    daemon.stop();
    run(&stage, "DEL", &pod).unwrap();
    assert_eq!(stage.pending_releases(), ["c1:net1:whereabouts.json"]);
}

/// Debian's bridge plugin executes a program called `whereabouts`: here one that makes the call in this process.
#[test]
fn under_a_foreign_plugin() {
    if !Path::new("/usr/lib/cni/bridge").exists() {
        eprintln!("skipped: containernetworking-plugins is not installed");
        return;
    }
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let _daemon = start(&stage);
    // What we print for each command is what the foreign plugin reads.
    let printed = run(&stage, "ADD", &pod).unwrap();
    let script = format!("#!/bin/sh\ncat > /dev/null\n[ $CNI_COMMAND = ADD ] && echo '{printed}'; exit 0\n");
    let file = stage.path("bin").join("whereabouts");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let (path, stdin) = (stage.cni_path(), config().to_string());
    let around = ferroband_attach::delegate::PluginEnv {
        container: "c1",
        netns: &pod.path,
        ifname: "net1",
        args: "".into(),
        path: &path,
        lock: None,
    };
    let result = ferroband_attach::delegate::add("bridge", &around, stdin.as_bytes()).unwrap();
    assert_eq!(result["ips"][0]["address"], "10.6.0.5/24");
    assert_eq!(pod.addresses("net1"), ["10.6.0.5/24"]);
}
