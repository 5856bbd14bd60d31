//! An ADD of a pod whose network names a device.

use super::{CniServerFixture, EVENTS, add};
use ferroband_model::FaultCode;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use std::fs;

/// Adds a network without a resource.
fn add_network(node: &CniServerFixture, name: &str, config: &Value) {
    let object = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()},
    });
    let object = serde_json::from_value(object).unwrap();
    node.handler
        .resolver
        .networks
        .cache()
        .apply(Event::Apply((("default".into(), name.into()), Some(object))));
}

#[test]
fn a_device_of_another_pod_is_refused_before_anything_is_written() {
    let node = CniServerFixture::start();
    let folder = node.folder.path().join("var/lib/kubelet/device-plugins");
    fs::create_dir_all(&folder).unwrap();
    let entry = |pod: &str, device: &str| json!({"PodUID": pod, "ContainerName": "c", "ResourceName": "x/vf", "DeviceIDs": {"0": [device]}});
    let entries = [entry("uid-victim", "0000:3b:00.2"), entry("uid-owner", "0000:3b:00.3")];
    let checkpoint = json!({"Data": {"PodDeviceEntries": entries}});
    fs::write(folder.join("kubelet_internal_checkpoint"), checkpoint.to_string()).unwrap();
    let ipam = json!({"type": "whereabouts", "range": "192.168.0.0/24"});
    let config = json!({"type": "ib-sriov", "deviceID": "0000:3b:00.3", "pkey": "0x3e8", "ipam": ipam});
    add_network(&node, "stolen", &config);

    node.add_pod("evil", Some("stolen"));
    let fault = node.add_fault("evil");
    assert_eq!(fault.code, FaultCode::DeviceNotAllocated, "{fault}");
    assert!(fault.what.contains("default/stolen") && fault.cause.contains("0000:3b:00.3"), "{fault}");
    node.wait_until(|api| api.list_calls().contains(&format!("POST {EVENTS}")));
    assert_eq!(node.api.last_body("POST", EVENTS)["reason"], "DeviceNotAllocated");
    assert_eq!(node.api.list_calls(), [format!("POST {EVENTS}")], "neither an address nor a membership");

    // The pod that has the device may name it.
    node.add_pod("owner", Some("stolen"));
    let plan = add(&mut node.connect(), "owner");
    assert_eq!(plan.partitions.len(), 1);
}
