//! Sandboxes that upstream Multus attached, deleted by us.

use crate::meta::{ETH0, set_up};
use crate::stage::AttachFixture;
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

fn put(stage: &AttachFixture, name: &str, content: &str) {
    let path = stage.root.path("var/lib/cni/multus").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// What Multus wrote for a pod with a default network of two plugins and a second network.
fn leave(stage: &AttachFixture, container: &str) {
    let default =
        json!({"cniVersion": "0.4.0", "name": "cbr0", "plugins": [{"type": "lease"}, {"type": "second"}]});
    let other = json!({"cniVersion": "1.0.0", "name": "n", "type": "third", "keep": "this", "capabilities": {"mac": true}});
    let list = json!([
        {"Conf": {}, "ConfList": default, "Name": "cbr0", "Bytes": base64(&default)},
        {"Conf": {"name": "n", "type": "third"}, "Name": "default/n", "Bytes": base64(&other),
         "resourceName": "x/vf", "deviceID": "d1"},
    ]);
    put(stage, container, &list.to_string());
    let cached = json!({
        "kind": "cniCacheV1", "containerId": container, "ifName": "net1", "networkName": "n", "config": base64(&other),
        "capabilityArgs": {"mac": "02:00:00:00:00:01"}, "cniArgs": [["K8S_POD_NAME", "old"]],
        "result": {"cniVersion": "1.0.0", "ips": [{"address": "10.1.1.1/24"}]},
    });
    put(stage, &format!("results/n-{container}-net1"), &cached.to_string());
    let info = stage.root.run("k8s.cni.cncf.io/devinfo/cni");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join(format!("default-n-{container}_net1")), "{}").unwrap();
    fs::write(stage.path("leases").join(format!("lease-{container}-eth0")), "").unwrap();
}

fn plugins(stage: &AttachFixture) {
    stage.install_plugin("second", "exit 0");
    stage.install_plugin("third", "echo \"$IN\" > $LEASES/../third; echo \"$CNI_ARGS\" >> $LOG");
}

fn newest(more: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "ferroband"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn del(stage: &AttachFixture, netns: &str) -> Result<Value, Error> {
    // What the configuration wraps is not called besides: it is the first delegate.
    let config = newest(json!({"delegates": [{"name": "cbr0", "type": "lease"}]}));
    stage.run(PluginType::Ferroband, "DEL", ETH0, netns, &config)
}

fn left(stage: &AttachFixture) -> Vec<String> {
    let folder = stage.root.path("var/lib/cni/multus");
    let mut files = stage.files(&folder);
    files.retain(|name| name != "results");
    files.extend(stage.files(&folder.join("results")));
    files.extend(stage.files(&stage.root.run("k8s.cni.cncf.io/devinfo/cni")));
    files
}

#[test]
fn case_95_a_pod_of_multus_is_deleted_by_its_state_file() {
    let (stage, mut daemon, pod) = set_up();
    daemon.stop();
    plugins(&stage);
    leave(&stage, "c1");
    del(&stage, &pod.path).unwrap();
    assert_eq!(
        stage.take_log(),
        ["DEL third net1", "K8S_POD_NAME=old", "DEL second eth0", "DEL lease eth0"],
        "in reverse, with the arguments of then"
    );
    let seen: Value = serde_json::from_slice(&fs::read(stage.path("third")).unwrap()).unwrap();
    assert_eq!(
        (&seen["keep"], &seen["prevResult"]["ips"][0]["address"]),
        (&json!("this"), &json!("10.1.1.1/24"))
    );
    assert_eq!(seen["runtimeConfig"]["mac"], "02:00:00:00:00:01");
    assert_eq!(left(&stage), [""; 0]);
    stage.assert_clean();
    // Both gone: nothing but the wrapped network is left to ask.
    del(&stage, &pod.path).unwrap();
    assert_eq!(stage.take_log(), ["DEL lease eth0"]);
}

#[test]
fn case_95_what_fails_is_kept_for_the_next_try() {
    let (stage, _daemon, pod) = set_up();
    plugins(&stage);
    stage.install_plugin("second", "exit 1");
    leave(&stage, "c1");
    let error = del(&stage, &pod.path).unwrap_err();
    assert!(error.to_string().contains("cbr0"), "{error}");
    assert_eq!(stage.take_log(), ["DEL third net1", "K8S_POD_NAME=old", "DEL second eth0", "DEL lease eth0"]);
    assert_eq!(left(&stage), ["c1"]);
    stage.install_plugin("second", "exit 0");
    del(&stage, &pod.path).unwrap();
    assert_eq!(left(&stage), [""; 0]);
}

#[test]
fn case_96_a_damaged_state_file_leaves_the_cache_and_never_fails() {
    let (stage, _daemon, pod) = set_up();
    plugins(&stage);
    for text in ["", "[]", "{", "null"] {
        leave(&stage, "c1");
        put(&stage, "c1", text);
        stage.take_log();
        del(&stage, &pod.path).unwrap();
        assert_eq!(stage.take_log(), ["DEL third net1", "K8S_POD_NAME=old"], "{text:?}");
        fs::remove_file(stage.root.run("k8s.cni.cncf.io/devinfo/cni/default-n-c1_net1")).unwrap();
        assert_eq!(left(&stage), [""; 0], "{text:?}");
    }
}

#[test]
fn an_ipoib_of_multus_is_deleted_in_process_when_its_program_is_gone() {
    let (stage, daemon, pod) = set_up();
    let ipoib = json!({"cniVersion": "0.3.1", "name": "ib", "type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts"}});
    put(
        &stage,
        "c1",
        &json!([{"Name": "cbr0", "Bytes": base64(&json!({"name": "cbr0", "type": "lease"}))},
        {"Name": "default/ib", "Bytes": base64(&ipoib)}])
        .to_string(),
    );
    daemon.state.lock().unwrap().held.insert("c1/net1".into());
    del(&stage, &pod.path).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Release"], vec![]));
    assert_eq!((stage.take_log(), left(&stage)), (vec!["DEL lease eth0".to_owned()], vec![]));
    stage.assert_clean();
}

#[test]
fn case_105_gc_takes_what_multus_left_and_spares_what_is_valid() {
    let (stage, _daemon, _pod) = set_up();
    plugins(&stage);
    leave(&stage, "c1");
    leave(&stage, "c2");
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    stage
        .run(PluginType::Ferroband, "GC", ("", ""), "", &newest(json!({"cni.dev/valid-attachments": valid})))
        .unwrap();
    assert_eq!(left(&stage), ["c1", "n-c1-net1", "default-n-c1_net1"]);
    assert_eq!(stage.files(&stage.path("leases")), ["lease-c1-eth0"]);
}
