//! Resources of the device plugin on a real kubelet: allocatable amounts and the devices in a pod.

use ferroband_cluster_tests::hardware::{
    SimulatedVfs, allocatable, apply_device_config, resource_pod, restart_kubelet, vf_address,
    wait_allocatable,
};
use ferroband_cluster_tests::{TestObjects, exec_in_pod, exec_on, node_names};
use serde_json::{Value, json};

const VFS: &str = "openshift.io/ib-vfs";
const FEW: &str = "openshift.io/few";

/// The device files of the node's simulated hardware.
const DEVICE_FILES: &str = "/var/lib/ferroband/sim/dev/infiniband";

fn files_in(pod: &str) -> Vec<String> {
    let mut files: Vec<String> = exec_in_pod(pod, "ls /dev/infiniband")
        .stdout_or_panic()
        .split_whitespace()
        .map(str::to_string)
        .collect();
    files.sort();
    files
}

fn parse_hex(hexadecimal: &str) -> u32 {
    u32::from_str_radix(hexadecimal, 16).expect("a number in hexadecimal")
}

/// Whether a container can open the node's device if it creates a device node for it.
fn can_open(pod: &str, node: &str, file: &str) -> bool {
    let number = exec_on(node, &format!("stat -c '%t %T' {DEVICE_FILES}/{file}")).stdout_or_panic();
    let (major, minor) = number.trim().split_once(' ').expect("two numbers");
    let (major, minor) = (parse_hex(major), parse_hex(minor));
    exec_in_pod(pod, &format!("rm -f /tmp/x; mknod /tmp/x c {major} {minor}")).stdout_or_panic();
    exec_in_pod(pod, "exec 3<>/tmp/x").ok
}

#[test]
fn shared_resource_has_its_maximum_and_exposes_only_its_devices() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let shared = json!({"configList": [{
        "resourceName": "hca_shared", "rdmaHcaMax": 10, "selectors": {"vendors": ["15b3"], "deviceIDs": ["1017"]},
    }]});
    apply_device_config(&mut objects, &[("shared.json", shared)]);
    wait_allocatable(&node, "rdma/hca_shared", "10");
    assert_eq!(allocatable(&node, "jarvice.com/rdma"), "1");
    objects.apply(&resource_pod("sharer", &node, "rdma/hca_shared", 1));
    objects.wait_ready("sharer", 60);
    // Neither umad nor issm: with them a pod could reconfigure the fabric.
    assert_eq!(files_in("sharer"), ["rdma_cm", "uverbs0"]);
    exec_in_pod("sharer", "exec 3<>/dev/infiniband/uverbs0").stdout_or_panic();
}

#[test]
fn sriov_resources_have_the_right_counts_and_a_pod_gets_only_its_functions() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let _functions = SimulatedVfs::create(&node, 6);
    // In the operator's spelling, with two pools on one adapter.
    let sriov = json!({"resourceList": [
        {"resourcePrefix": "openshift.io", "resourceName": "few",
         "selectors": {"vendors": ["15b3"], "IsRdma": true, "rootDevices": ["0000:86:00.0#0-1"], "SelectorObj": null}},
        {"resourcePrefix": "openshift.io", "resourceName": "ib-vfs",
         "selectors": [{"vendors": ["15b3"], "devices": ["1018"], "linkTypes": ["infiniband"], "isRdma": true}]},
    ]});
    apply_device_config(&mut objects, &[("sriov.json", sriov)]);
    wait_allocatable(&node, VFS, "4");
    wait_allocatable(&node, FEW, "2");
    assert_eq!(allocatable(&node_names()[1], VFS), "absent", "a node without functions");
    objects.apply(&resource_pod("two", &node, VFS, 2)).apply(&resource_pod("one", &node, VFS, 1));
    objects.wait_ready("two", 90);
    objects.wait_ready("one", 90);

    let allocated = |pod: &str| -> Vec<String> {
        let output = exec_in_pod(pod, "echo $PCIDEVICE_OPENSHIFT_IO_IB_VFS").stdout_or_panic();
        output.trim().split(',').map(str::to_owned).collect()
    };
    let (two, one) = (allocated("two"), allocated("one"));
    assert_eq!((two.len(), one.len()), (2, 1));
    let mut all: Vec<&String> = two.iter().chain(&one).collect();
    all.dedup();
    assert_eq!(all.len(), 3, "no function is allocated twice: {two:?} {one:?}");
    assert!(all.iter().all(|id| (2..6).any(|index| vf_address(index) == **id)), "{all:?}");

    let info: Value = serde_json::from_str(
        &exec_in_pod("two", "echo \"$PCIDEVICE_OPENSHIFT_IO_IB_VFS_INFO\"").stdout_or_panic(),
    )
    .unwrap();
    let hyphen =
        exec_in_pod("two", "tr '\\0' '\\n' < /proc/1/environ | grep ^PCIDEVICE_OPENSHIFT_IO_IB-VFS=");
    assert!(
        hyphen.stdout_or_panic().contains(&two.join(",")),
        "upstream's variable name, which a shell cannot read"
    );
    let mut expected = vec!["rdma_cm".to_owned()];
    for id in &two {
        let rdma = &info[id]["rdma"];
        let verbs = rdma["uverbs"].as_str().unwrap_or_else(|| panic!("{info}"));
        expected.push(verbs.rsplit('/').next().unwrap().to_owned());
        exec_in_pod("two", &format!("exec 3<>{verbs}")).stdout_or_panic();
        let name = format!("openshift.io-ib-vfs-{id}-device.json");
        let file =
            exec_on(&node, &format!("cat /var/run/k8s.cni.cncf.io/devinfo/dp/{name}")).stdout_or_panic();
        let file: Value = serde_json::from_str(&file).unwrap();
        let device_info = json!({"type": "pci", "version": "1.1.0",
            "pci": {"pci-address": id, "rdma-device": rdma["rdma_dev"]}});
        assert_eq!(file, device_info);
    }
    expected.sort();
    assert_eq!(files_in("two"), expected);

    // Devices of the other pod and of the adapter cannot be opened.
    let others: Vec<String> = files_in("one").into_iter().filter(|file| file.starts_with("uverbs")).collect();
    assert!(can_open("two", &node, &expected[1]), "its own device");
    for file in others.iter().map(String::as_str).chain(["uverbs0", "umad0", "issm0"]) {
        assert!(!can_open("two", &node, file), "{file}");
    }
}

/// A device plugin process on a node, killed on drop.
struct DevicePluginProcess<'a>(&'a str, String);

impl Drop for DevicePluginProcess<'_> {
    fn drop(&mut self) {
        exec_on(self.0, &format!("kill {}; while [ -e /proc/{}/exe ]; do sleep 0.05; done", self.1, self.1));
    }
}

#[test]
fn device_plugin_is_found_by_the_kubelets_plugin_watcher() {
    let (node, resource) = (node_names()[2].clone(), "watched.example.com/rdma");
    let socket = "/var/lib/kubelet/plugins_registry/ferroband-watched.example.com-rdma.sock";
    {
        let start = format!(
            "setsid ferroband device-plugin --registration watcher --rdma-resource {resource} \
             </dev/null >/tmp/watched.log 2>&1 & echo $!"
        );
        let running = DevicePluginProcess(&node, exec_on(&node, &start).stdout_or_panic().trim().to_owned());
        wait_allocatable(&node, resource, "1");
        // A restarted kubelet finds the socket again without a Register call.
        restart_kubelet(&node);
        wait_allocatable(&node, resource, "1");
        let called =
            format!("grep 'Got registration request' /var/log/lab/kubelet.log | grep -c '{resource}'; true");
        assert_eq!(exec_on(&node, &called).stdout_or_panic().trim(), "0", "Register was never called");
        drop(running);
    }
    wait_allocatable(&node, resource, "0");
    assert!(!exec_on(&node, &format!("test -e {socket}")).ok, "no socket is left for the watcher");
}
