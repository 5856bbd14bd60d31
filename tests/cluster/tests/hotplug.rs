//! Hardware changes under a running kubelet: the kubelet sees them within a second, the API server within three, and
//! running pods are not affected.

use ferroband_cluster_tests::hardware::{
    ADAPTER, SimulatedVfs, allocatable, apply_device_config, kubelet_reports_healthy, load_factor,
    pod_identity, resource_pod, seconds_until, wait_allocatable,
};
use ferroband_cluster_tests::{TestObjects, eventually, exec_in_pod, node_names};
use serde_json::{Value, json};
use std::time::Instant;

const RESOURCE: &str = "openshift.io/ib_vfs";

fn pool() -> Value {
    json!({"resourceList": [{"resourcePrefix": "openshift.io", "resourceName": "ib_vfs",
        "selectors": {"devices": ["1018"], "isRdma": true}}]})
}

/// Runs `ferroband sim WORDS`. The kubelet must see `healthy` devices within a second, the API server within three.
#[track_caller]
fn change_and_wait(node: &str, words: &str, resource: &str, healthy: usize) {
    let limit = load_factor();
    let kubelet =
        seconds_until(node, &format!("ferroband sim {words}"), &kubelet_reports_healthy(resource, healthy));
    let begin = Instant::now();
    eventually(&format!("{words}: {healthy} allocatable"), 60, || match allocatable(node, resource) {
        current if current == healthy.to_string() => Ok(()),
        current => Err(current),
    });
    let api = kubelet + begin.elapsed().as_secs_f64();
    eprintln!("  {words}: kubelet after {kubelet:.2} s, allocatable after {api:.2} s (slowness {limit:.1})");
    assert!(kubelet <= limit, "{words}: the kubelet saw it after {kubelet:.2} s");
    assert!(api <= 3.0 * limit, "{words}: allocatable after {api:.2} s");
}

#[test]
fn kubelet_sees_hotplug_and_vf_changes_within_a_second_and_running_pods_stay() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let _functions = SimulatedVfs::create(&node, 4);
    apply_device_config(&mut objects, &[("sriov.json", pool())]);
    wait_allocatable(&node, RESOURCE, "4");
    objects.apply(&resource_pod("stays", &node, RESOURCE, 1));
    objects.wait_ready("stays", 90);
    let before = pod_identity("stays");

    change_and_wait(&node, &format!("vfs {ADAPTER} 8"), RESOURCE, 8);
    change_and_wait(&node, &format!("unplug {ADAPTER}"), RESOURCE, 0);
    change_and_wait(&node, &format!("replug {ADAPTER}"), "jarvice.com/rdma", 1);
    change_and_wait(&node, &format!("vfs {ADAPTER} 4"), RESOURCE, 4);
    assert_eq!(pod_identity("stays"), before);

    // The pod keeps its function: three of four are left for others.
    objects.apply(&resource_pod("rest", &node, RESOURCE, 3));
    objects.wait_ready("rest", 90);
    let own = exec_in_pod("stays", "echo $PCIDEVICE_OPENSHIFT_IO_IB_VFS").stdout_or_panic();
    let rest = exec_in_pod("rest", "echo $PCIDEVICE_OPENSHIFT_IO_IB_VFS").stdout_or_panic();
    assert!(!rest.contains(own.trim()), "{own} was allocated twice: {rest}");
}

#[test]
fn port_down_makes_its_functions_unhealthy_but_a_flap_does_not() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let functions = SimulatedVfs::create(&node, 2);
    apply_device_config(&mut objects, &[("sriov.json", pool())]);
    wait_allocatable(&node, RESOURCE, "2");
    objects.apply(&resource_pod("cabled", &node, RESOURCE, 1));
    objects.wait_ready("cabled", 90);
    let before = pod_identity("cabled");
    let gone = kubelet_reports_healthy(RESOURCE, 0);
    // A flap of two seconds is not reported, also not after the debounce time.
    functions.sim(&format!("port {ADAPTER} down"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    functions.sim(&format!("port {ADAPTER} active"));
    let quiet = format!("i=0; while [ $i -lt 60 ]; do {gone} && exit 1; i=$((i+1)); sleep 0.1; done");
    seconds_until(&node, &quiet, "true");

    let slow = load_factor();
    let down = seconds_until(&node, &format!("ferroband sim port {ADAPTER} down"), &gone);
    assert!((4.8..=5.0 + 2.0 * slow).contains(&down), "down is reported after five seconds, not {down:.1}");
    let known = kubelet_reports_healthy(RESOURCE, 2);
    let up = seconds_until(&node, &format!("ferroband sim port {ADAPTER} active"), &known);
    assert!((9.8..=10.0 + 2.0 * slow).contains(&up), "up is reported after ten seconds, not {up:.1}");
    assert_eq!(pod_identity("cabled"), before);
}
