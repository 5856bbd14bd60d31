//! The `whereabouts` plugin, called by a foreign plugin.

use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::meta_plugin::assigned_addresses;
use crate::scripted_daemon::{ScriptedDaemon, ScriptedDaemonState};
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn config() -> Value {
    json!({"cniVersion": "1.0.0", "name": "n", "type": "bridge", "ipam": {"type": "whereabouts", "range": "10.6.0.0/24"}})
}

fn start(fixture: &AttachFixture) -> ScriptedDaemon {
    let state = ScriptedDaemonState {
        assigned: vec![assigned_addresses(0, "10.6.0.5/24")],
        ..ScriptedDaemonState::default()
    };
    ScriptedDaemon::start(&fixture.root, state)
}

fn run(fixture: &AttachFixture, command: &str, pod: &PodNetnsFixture) -> Result<Value, Error> {
    fixture.run(PluginType::Whereabouts, command, ("c1", "net1"), &pod.path, &config())
}

#[test]
fn add_is_idempotent_and_check_and_del_succeed() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let daemon = start(&fixture);
    let result = run(&fixture, "ADD", &pod).unwrap();
    let expected = json!({
        "cniVersion": "1.0.0", "ips": [{"address": "10.6.0.5/24"}], "routes": [{"dst": "172.30.0.0/16"}],
    });
    assert_eq!(result, expected);
    assert_eq!(run(&fixture, "ADD", &pod).unwrap(), expected, "a repeated ADD returns the same addresses");
    assert_eq!(run(&fixture, "CHECK", &pod).unwrap(), Value::Null);
    run(&fixture, "DEL", &pod).unwrap();
    run(&fixture, "DEL", &pod).unwrap();
    assert_eq!(daemon.take_requests(), ["Assign", "Assign", "Release", "Release"]);
    assert_eq!(daemon.held_containers(), [""; 0]);
    fixture.assert_clean();
    assert_eq!(run(&fixture, "CHECK", &pod).unwrap_err().code(), 3);
}

#[test]
fn add_without_an_assigned_address_fails_and_is_released() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let daemon = ScriptedDaemon::start(&fixture.root, ScriptedDaemonState::default());
    assert_eq!(run(&fixture, "ADD", &pod).unwrap_err().fault().code.reason(), "PoolExhausted");
    assert_eq!(daemon.take_requests(), ["Assign", "Release"]);
    fixture.assert_clean();
}

#[test]
fn without_the_daemon_add_fails_temporarily_and_del_queues_the_release() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    assert_eq!(run(&fixture, "ADD", &pod).unwrap_err().code(), 11);
    let mut daemon = start(&fixture);
    run(&fixture, "ADD", &pod).unwrap();
    daemon.stop();
    run(&fixture, "DEL", &pod).unwrap();
    assert_eq!(fixture.pending_releases(), ["c1:net1:whereabouts.json"]);
}

/// Debian's bridge plugin executes `whereabouts`; here that is a script that prints the result of an in-process call.
#[test]
fn a_foreign_plugin_accepts_the_result() {
    if !Path::new("/usr/lib/cni/bridge").exists() {
        eprintln!("skipped: containernetworking-plugins is not installed");
        return;
    }
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let _daemon = start(&fixture);
    // The script prints what the in-process ADD printed.
    let printed = run(&fixture, "ADD", &pod).unwrap();
    let script = format!("#!/bin/sh\ncat > /dev/null\n[ $CNI_COMMAND = ADD ] && echo '{printed}'; exit 0\n");
    let file = fixture.path("bin").join("whereabouts");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let (path, stdin) = (fixture.cni_path(), config().to_string());
    let env = ferroband_attach::delegate::PluginEnv {
        container: "c1",
        netns: &pod.path,
        ifname: "net1",
        args: "".into(),
        path: &path,
        lock: None,
    };
    let result = ferroband_attach::delegate::add("bridge", &env, stdin.as_bytes()).unwrap();
    assert_eq!(result["ips"][0]["address"], "10.6.0.5/24");
    assert_eq!(pod.addresses("net1"), ["10.6.0.5/24"]);
}
