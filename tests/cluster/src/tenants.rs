//! Tenants of a fabric: virtual functions on every node, networks that differ only in their P_Key, and pods in them.

use crate::fabric::{UfmFabric, pkey_tables};
use crate::hardware::wait_allocatable;
use crate::{TestObjects, eventually, ferroband, kubectl, network_definition, node_names};
use serde_json::{Value, json};

/// Resource name of the virtual functions.
pub const RESOURCE: &str = "spidernet.io/fabric";
/// P_Key of the networks `red` and `red-too`.
pub const RED: u16 = 0x3e8;
/// P_Key of the network `blue`.
pub const BLUE: u16 = 0x7d0;

/// Virtual functions on every node, a simulated UFM, and the tenants' networks.
pub fn tenant_fixture(objects: &mut TestObjects) -> UfmFabric {
    apply_policy_and_networks(objects);
    let fabric = UfmFabric::up();
    wait_vfs_allocatable();
    fabric
}

/// Virtual functions on every node, and networks that differ only in their P_Key: the fabric separates tenants, not
/// their addresses.
pub fn apply_tenant_networks(objects: &mut TestObjects) {
    apply_policy_and_networks(objects);
    wait_vfs_allocatable();
}

fn wait_vfs_allocatable() {
    for node in node_names() {
        wait_allocatable(&node, RESOURCE, "4");
    }
}

fn apply_policy_and_networks(objects: &mut TestObjects) {
    objects.apply(
        &json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": "fabric", "namespace": "kube-system"},
            "spec": {
                "resourceName": "fabric", "nodeSelector": {"kubernetes.io/os": "linux"}, "numVfs": 4,
                "nicSelector": {"pfNames": ["ibs5f0"]}, "deviceType": "netdevice", "isRdma": true, "linkType": "ib",
            },
        })
        .to_string(),
    );
    // P_Keys as the documents write them: a number and hexadecimal text.
    for (name, pkey) in [("red", json!(1000)), ("red-too", json!("0x3e8")), ("blue", json!("0x7d0"))] {
        objects.apply(&tenant_network("default", name, pkey));
    }
}

/// A NetworkAttachmentDefinition with a P_Key.
pub fn tenant_network(namespace: &str, name: &str, pkey: Value) -> String {
    let config = json!({
        "cniVersion": "1.0.0", "name": name, "type": "ib-sriov", "pkey": pkey, "ibKubernetesEnabled": true,
        "ipam": {"type": "whereabouts", "range": "10.88.0.0/24"},
    });
    let mut network = network_definition(name, &config);
    network["metadata"]["namespace"] = json!(namespace);
    network["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": RESOURCE});
    network.to_string()
}

/// Path of the port in a pod of [`spec`].
pub const PORT_PATH: &str = "/fabric/bus/pci/devices/$PCIDEVICE_SPIDERNET_IO_FABRIC/infiniband/*/ports/1";

/// Pod spec with one virtual function; it runs `script` and mounts the node's simulated sysfs.
pub fn tenant_pod_spec(script: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "c", "image": "ferroband.lab/tools:1", "command": ["sh", "-c", script],
            "resources": {"limits": {RESOURCE: "1"}},
            "volumeMounts": [{"name": "fabric", "mountPath": "/fabric", "readOnly": true}],
        }],
        "volumes": [{"name": "fabric", "hostPath": {"path": "/var/lib/ferroband/sim/sys"}}],
    })
}

/// A pod that first prints the first entry of its port's P_Key table.
pub fn tenant_pod(namespace: &str, name: &str, node: &str, networks: &str) -> String {
    let mut spec = tenant_pod_spec(&format!("cat {PORT_PATH}/pkeys/0; exec sleep 100000"));
    spec["nodeName"] = json!(node);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "annotations": {"k8s.v1.cni.cncf.io/networks": networks},
        },
        "spec": spec,
    })
    .to_string()
}

/// The pod's row of `ferroband partition members`, if any.
#[track_caller]
pub fn partition_member(pod: &str) -> Option<Value> {
    let output = ferroband(&["partition", "members", "-o", "json"]).stdout_or_panic();
    let all: Value = serde_json::from_str(&output).expect("JSON");
    all.as_array().into_iter().flatten().find(|row| row["pod"] == pod).cloned()
}

/// The port GUID of a pod that is a programmed member.
#[track_caller]
pub fn member_guid(pod: &str) -> String {
    let row = partition_member(pod).unwrap_or_else(|| panic!("{pod} is not a partition member"));
    assert_eq!(row["state"], "programmed", "{row}");
    row["guid"].as_str().expect("a GUID").to_owned()
}

/// Waits until neither the port's P_Key table nor UFM has the GUID in the partition.
#[track_caller]
pub fn wait_not_member(fabric: &UfmFabric, node: &str, guid: &str, key: u16) {
    eventually(&format!("{guid} not in partition {key:#06x}"), 60, || {
        let table = pkey_tables(node).remove(guid).unwrap_or_default();
        let listed = fabric.members(key);
        match table.contains(&format!("{:#06x}", key | 0x8000)) || listed.iter().any(|one| one == guid) {
            false => Ok(()),
            true => Err(format!("{table:?}, UFM: {listed:?}")),
        }
    });
}

/// Messages of the pod's warning events.
pub fn pod_warnings(namespace: &str, pod: &str) -> String {
    let field = format!("involvedObject.name={pod},type=Warning");
    kubectl(&[
        "get",
        "events",
        "-n",
        namespace,
        "--field-selector",
        &field,
        "-o",
        "jsonpath={.items[*].message}",
    ])
    .out
}
