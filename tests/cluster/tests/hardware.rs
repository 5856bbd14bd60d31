//! Hardware that changes under a running kubelet: it is told within a second, the API server within three, and pods that
//! run stay as they are.

use ferroband_cluster_tests::hardware::{
    ADAPTER, Functions, allocatable, configure, holder, kubelet_knows, life, offered, seconds_until, slowness,
};
use ferroband_cluster_tests::{Objects, eventually, inside, nodes};
use serde_json::{Value, json};
use std::time::Instant;

const RESOURCE: &str = "openshift.io/ib_vfs";

fn pool() -> Value {
    json!({"resourceList": [{"resourcePrefix": "openshift.io", "resourceName": "ib_vfs",
        "selectors": {"devices": ["1018"], "isRdma": true}}]})
}

/// Does `words` to the node's hardware; the kubelet knows of so many healthy units a second later, and they can be
/// allocated two seconds after that.
#[track_caller]
fn told(node: &str, words: &str, resource: &str, healthy: usize) {
    let limit = slowness();
    let kubelet = seconds_until(node, &format!("ferroband sim {words}"), &kubelet_knows(resource, healthy));
    let begin = Instant::now();
    eventually(&format!("{words}: {healthy} can be allocated"), 60, || match allocatable(node, resource) {
        seen if seen == healthy.to_string() => Ok(()),
        seen => Err(seen),
    });
    let api = kubelet + begin.elapsed().as_secs_f64();
    eprintln!("  {words}: kubelet after {kubelet:.2} s, allocatable after {api:.2} s (slowness {limit:.1})");
    assert!(kubelet <= limit, "{words}: the kubelet was told after {kubelet:.2} s");
    assert!(api <= 3.0 * limit, "{words}: allocatable after {api:.2} s");
}

#[test]
fn unplugging_replugging_and_other_functions_are_told_within_a_second_and_a_running_pod_stays() {
    let (mut objects, node) = (Objects::default(), nodes()[0].clone());
    let _functions = Functions::make(&node, 4);
    configure(&mut objects, &[("sriov.json", pool())]);
    offered(&node, RESOURCE, "4");
    objects.apply(&holder("stays", &node, RESOURCE, 1));
    objects.running("stays", 90);
    let before = life("stays");

    told(&node, &format!("vfs {ADAPTER} 8"), RESOURCE, 8);
    told(&node, &format!("unplug {ADAPTER}"), RESOURCE, 0);
    told(&node, &format!("replug {ADAPTER}"), "jarvice.com/rdma", 1);
    told(&node, &format!("vfs {ADAPTER} 4"), RESOURCE, 4);
    assert_eq!(life("stays"), before);

    // What it holds is still its own: of four functions three are left for others.
    objects.apply(&holder("rest", &node, RESOURCE, 3));
    objects.running("rest", 90);
    let own = inside("stays", "echo $PCIDEVICE_OPENSHIFT_IO_IB_VFS").good();
    let rest = inside("rest", "echo $PCIDEVICE_OPENSHIFT_IO_IB_VFS").good();
    assert!(!rest.contains(own.trim()), "{own} was given twice: {rest}");
}

#[test]
fn a_port_that_stays_down_makes_its_functions_unhealthy_and_a_flap_does_not() {
    let (mut objects, node) = (Objects::default(), nodes()[0].clone());
    let functions = Functions::make(&node, 2);
    configure(&mut objects, &[("sriov.json", pool())]);
    offered(&node, RESOURCE, "2");
    objects.apply(&holder("cabled", &node, RESOURCE, 1));
    objects.running("cabled", 90);
    let before = life("cabled");
    let gone = kubelet_knows(RESOURCE, 0);
    // A flap of two seconds: nothing is told, although it is waited for longer than the debounce.
    functions.sim(&format!("port {ADAPTER} down"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    functions.sim(&format!("port {ADAPTER} active"));
    let quiet = format!("i=0; while [ $i -lt 60 ]; do {gone} && exit 1; i=$((i+1)); sleep 0.1; done");
    seconds_until(&node, &quiet, "true");

    let slow = slowness();
    let down = seconds_until(&node, &format!("ferroband sim port {ADAPTER} down"), &gone);
    assert!((4.8..=5.0 + 2.0 * slow).contains(&down), "down is told after five seconds, not {down:.1}");
    let known = kubelet_knows(RESOURCE, 2);
    let up = seconds_until(&node, &format!("ferroband sim port {ADAPTER} active"), &known);
    assert!((9.8..=10.0 + 2.0 * slow).contains(&up), "up is told after ten seconds, not {up:.1}");
    assert_eq!(life("cabled"), before);
}
