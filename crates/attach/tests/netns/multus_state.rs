//! Deletion of sandboxes that upstream Multus attached.

use crate::fixture::AttachFixture;
use crate::meta_plugin::{ETH0, set_up};
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn base64(value: &Value) -> String {
    let mut child =
        Command::new("base64").arg("-w0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(value.to_string().as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

fn write_file(fixture: &AttachFixture, name: &str, content: &str) {
    let path = fixture.root.path("var/lib/cni/multus").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Write the Multus state of a pod with a default network of two plugins and a second network.
fn write_multus_state(fixture: &AttachFixture, container: &str) {
    let default =
        json!({"cniVersion": "0.4.0", "name": "cbr0", "plugins": [{"type": "lease"}, {"type": "second"}]});
    let other = json!({"cniVersion": "1.0.0", "name": "n", "type": "third", "keep": "this", "capabilities": {"mac": true}});
    let list = json!([
        {"Conf": {}, "ConfList": default, "Name": "cbr0", "Bytes": base64(&default)},
        {"Conf": {"name": "n", "type": "third"}, "Name": "default/n", "Bytes": base64(&other),
         "resourceName": "x/vf", "deviceID": "d1"},
    ]);
    write_file(fixture, container, &list.to_string());
    let cached = json!({
        "kind": "cniCacheV1", "containerId": container, "ifName": "net1", "networkName": "n", "config": base64(&other),
        "capabilityArgs": {"mac": "02:00:00:00:00:01"}, "cniArgs": [["K8S_POD_NAME", "old"]],
        "result": {"cniVersion": "1.0.0", "ips": [{"address": "10.1.1.1/24"}]},
    });
    write_file(fixture, &format!("results/n-{container}-net1"), &cached.to_string());
    let info = fixture.root.run("k8s.cni.cncf.io/devinfo/cni");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join(format!("default-n-{container}_net1")), "{}").unwrap();
    fs::write(fixture.path("leases").join(format!("lease-{container}-eth0")), "").unwrap();
}

fn install_plugins(fixture: &AttachFixture) {
    fixture.install_plugin("second", "exit 0");
    fixture.install_plugin("third", "echo \"$IN\" > $LEASES/../third; echo \"$CNI_ARGS\" >> $LOG");
}

fn config_1_1_0(more: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "ferroband"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn del(fixture: &AttachFixture, netns: &str) -> Result<Value, Error> {
    // The wrapped network is also the first delegate of Multus. Its plugin must be called only once.
    let config = config_1_1_0(json!({"delegates": [{"name": "cbr0", "type": "lease"}]}));
    fixture.run(PluginType::Ferroband, "DEL", ETH0, netns, &config)
}

fn remaining_files(fixture: &AttachFixture) -> Vec<String> {
    let folder = fixture.root.path("var/lib/cni/multus");
    let mut files = fixture.files(&folder);
    files.retain(|name| name != "results");
    files.extend(fixture.files(&folder.join("results")));
    files.extend(fixture.files(&fixture.root.run("k8s.cni.cncf.io/devinfo/cni")));
    files
}

// Case: cni 95
#[test]
fn a_pod_of_multus_is_deleted_from_its_state_file() {
    let (fixture, mut daemon, pod) = set_up();
    daemon.stop();
    install_plugins(&fixture);
    write_multus_state(&fixture, "c1");
    del(&fixture, &pod.path).unwrap();
    assert_eq!(
        fixture.take_log(),
        ["DEL third net1", "K8S_POD_NAME=old", "DEL second eth0", "DEL lease eth0"],
        "in reverse order, with the arguments of the ADD"
    );
    let stdin: Value = serde_json::from_slice(&fs::read(fixture.path("third")).unwrap()).unwrap();
    assert_eq!(
        (&stdin["keep"], &stdin["prevResult"]["ips"][0]["address"]),
        (&json!("this"), &json!("10.1.1.1/24"))
    );
    assert_eq!(stdin["runtimeConfig"]["mac"], "02:00:00:00:00:01");
    assert_eq!(remaining_files(&fixture), [""; 0]);
    fixture.assert_clean();
    // Without state files of Multus, DEL must delete only the wrapped network.
    del(&fixture, &pod.path).unwrap();
    assert_eq!(fixture.take_log(), ["DEL lease eth0"]);
}

// Case: cni 95
#[test]
fn state_files_of_failed_plugins_are_kept_for_a_retry() {
    let (fixture, _daemon, pod) = set_up();
    install_plugins(&fixture);
    fixture.install_plugin("second", "exit 1");
    write_multus_state(&fixture, "c1");
    let error = del(&fixture, &pod.path).unwrap_err();
    assert!(error.to_string().contains("cbr0"), "{error}");
    assert_eq!(
        fixture.take_log(),
        ["DEL third net1", "K8S_POD_NAME=old", "DEL second eth0", "DEL lease eth0"]
    );
    assert_eq!(remaining_files(&fixture), ["c1"]);
    fixture.install_plugin("second", "exit 0");
    del(&fixture, &pod.path).unwrap();
    assert_eq!(remaining_files(&fixture), [""; 0]);
}

// Case: cni 96
#[test]
fn a_damaged_state_file_falls_back_to_the_cache() {
    let (fixture, _daemon, pod) = set_up();
    install_plugins(&fixture);
    for text in ["", "[]", "{", "null"] {
        write_multus_state(&fixture, "c1");
        write_file(&fixture, "c1", text);
        fixture.take_log();
        del(&fixture, &pod.path).unwrap();
        assert_eq!(fixture.take_log(), ["DEL third net1", "K8S_POD_NAME=old"], "{text:?}");
        fs::remove_file(fixture.root.run("k8s.cni.cncf.io/devinfo/cni/default-n-c1_net1")).unwrap();
        assert_eq!(remaining_files(&fixture), [""; 0], "{text:?}");
    }
}

#[test]
fn an_ipoib_network_of_multus_is_deleted_in_process_when_its_binary_is_gone() {
    let (fixture, daemon, pod) = set_up();
    let ipoib = json!({"cniVersion": "0.3.1", "name": "ib", "type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts"}});
    write_file(
        &fixture,
        "c1",
        &json!([{"Name": "cbr0", "Bytes": base64(&json!({"name": "cbr0", "type": "lease"}))},
        {"Name": "default/ib", "Bytes": base64(&ipoib)}])
        .to_string(),
    );
    daemon.state.lock().unwrap().held.insert("c1/net1".into());
    del(&fixture, &pod.path).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Release"], vec![]));
    assert_eq!((fixture.take_log(), remaining_files(&fixture)), (vec!["DEL lease eth0".to_owned()], vec![]));
    fixture.assert_clean();
}

// Case: cni 105
#[test]
fn gc_removes_stale_multus_state_and_keeps_valid_attachments() {
    let (fixture, _daemon, _pod) = set_up();
    install_plugins(&fixture);
    write_multus_state(&fixture, "c1");
    write_multus_state(&fixture, "c2");
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    fixture
        .run(
            PluginType::Ferroband,
            "GC",
            ("", ""),
            "",
            &config_1_1_0(json!({"cni.dev/valid-attachments": valid})),
        )
        .unwrap();
    assert_eq!(remaining_files(&fixture), ["c1", "n-c1-net1", "default-n-c1_net1"]);
    assert_eq!(fixture.files(&fixture.path("leases")), ["lease-c1-eth0"]);
}
