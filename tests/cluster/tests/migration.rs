//! Ferroband is installed into a cluster with Multus, Whereabouts, Spiderpool and ib-kubernetes. Existing pods keep
//! their addresses and are deleted by Ferroband, new pods get other addresses; then the legacy stack is removed.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::hardware::pod_identity;
use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::ip_pools::{
    address_holder, ipoib_config, pod_address, spiderpool_ipam, wait_address_free,
};
use ferroband_cluster_tests::legacy_stack::{self, LegacyPod, apply_network, wait_absent};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_on, kubectl, kubectl_get, node_names, pod_with_networks, start_bare_lab,
    up_lab,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Only six addresses, so that a double assignment shows up quickly.
const RANGE: &str = "192.168.120.0/29";
const RED: u16 = 0x3e8;
const POOL: &str = "old-pool";

// Case: ipam A28
#[test]
fn legacy_pods_keep_their_addresses_and_the_legacy_stack_can_be_removed() {
    start_bare_lab(&["--nodes", "2"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    legacy_stack::install_crds();
    let ranged = ipoib_config("old-range", &json!({"type": "whereabouts", "range": RANGE}));
    let pooled = ipoib_config("old-pooled", &spiderpool_ipam(&[POOL]));
    apply_network(&mut objects, &ranged);
    apply_network(&mut objects, &pooled);
    objects.apply(
        &json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": POOL},
            "spec": {"subnet": "172.120.0.0/24", "ips": ["172.120.0.100-172.120.0.103"]},
        })
        .to_string(),
    );
    let first = LegacyPod::create(&mut objects, "old-first", &nodes[0], &ranged, "192.168.120.1");
    let second = LegacyPod::create(&mut objects, "old-second", &nodes[1], &ranged, "192.168.120.2");
    let third = LegacyPod::create(&mut objects, "old-third", &nodes[1], &pooled, "172.120.0.100");
    let apart = json!({"cniVersion": "0.3.1", "name": "old-function", "type": "ib-sriov", "pkey": "0x3e8",
        "ibKubernetesEnabled": true});
    apply_network(&mut objects, &apart);
    let member = LegacyPod::create(&mut objects, "old-member", &nodes[0], &apart, "172.121.0.1");
    legacy_stack::record_whereabouts(&mut objects, RANGE, &[&first, &second]);
    legacy_stack::record_spiderpool(&mut objects, POOL, &third);
    for node in &nodes {
        legacy_stack::configure_multus(node);
    }
    let old = [&first, &second, &third, &member];
    let networks_before = networks_annotation(&member);
    let before: Vec<Value> = old.iter().map(|pod| pod_identity(&pod.name)).collect();

    up_lab(&["--install"]);

    let now: Vec<Value> = old.iter().map(|pod| pod_identity(&pod.name)).collect();
    assert_eq!(now, before, "running pods are not touched");
    for pod in old {
        assert_eq!(
            first_ipv4(&pod_interface(&pod.name, "net1")).0,
            pod.address,
            "{} keeps its address",
            pod.name
        );
    }
    for pod in [&first, &second] {
        wait_taken_over(pod);
    }
    // Spiderpool's controller is still active: its objects are not written, and its pool is blocked.
    assert!(!allocated_ips(POOL).contains("ferroband"), "{}", allocated_ips(POOL));
    eventually("the pool is blocked", 60, || {
        let blocked =
            kubectl_get(&["addressstates.ferroband.io", "cluster"])["status"]["blockedRanges"].to_string();
        if blocked.contains("172.120.0.100-172.120.0.103") { Ok(()) } else { Err(blocked) }
    });

    // Ferroband uses ib-kubernetes' Secret and ConfigMap, but does not remove the members that ib-kubernetes added.
    let fabric = UfmFabric::up();
    fabric.ufm.add_foreign_member(RED, legacy_stack::GUID.parse().expect("a GUID"));
    eventually("its GUID is reported as an orphan", 60, || {
        let orphans = kubectl_get(&["fabrics.ferroband.io"])["items"][0]["status"]["orphans"].to_string();
        if orphans.contains(legacy_stack::GUID) { Ok(()) } else { Err(orphans) }
    });
    assert_eq!(networks_annotation(&member), networks_before, "ib-kubernetes' annotation is unchanged");

    // The range has four free addresses, the pool three.
    let (fourth, fifth) = (names("new-range", 4), names("new-pool", 3));
    kubectl(&["-n", "kube-system", "delete", "lease", "spiderpool-controller-leases"]).stdout_or_panic();
    wait_taken_over(&third);
    for (position, name) in fourth.iter().enumerate() {
        objects.apply(&pod_with_networks(name, &nodes[position % 2], "old-range"));
    }
    for (position, name) in fifth.iter().enumerate() {
        objects.apply(&pod_with_networks(name, &nodes[position % 2], "old-pooled"));
    }
    let wait_addresses = |names: &[String]| -> BTreeSet<String> {
        names.iter().for_each(|name| drop(ferroband_cluster_tests::wait_pod_ready(name, 120)));
        names.iter().map(|name| pod_address(name)).collect()
    };
    let expected =
        |prefix: &str, from: u8, to: u8| (from..=to).map(|last| format!("{prefix}{last}")).collect();
    assert_eq!(
        wait_addresses(&fourth),
        expected("192.168.120.", 3, 6),
        "new pods get the free addresses of the range"
    );
    assert_eq!(
        wait_addresses(&fifth),
        expected("172.120.0.", 101, 103),
        "new pods get the free addresses of the pool"
    );

    // Ferroband deletes legacy pods with the legacy files and records.
    let deleted = [&first, &third, &member];
    let called = deleted.map(|pod| pod.name.as_str());
    kubectl(&[&["delete", "pod", "--wait", "--timeout=60s"], &called[..]].concat()).stdout_or_panic();
    for pod in deleted {
        wait_without_files(pod);
        wait_address_free(&format!("the address of {} is free", pod.name), 90, &pod.address);
    }
    assert_eq!(fabric.members(RED), [legacy_stack::GUID], "members added by ib-kubernetes stay");
    let pools = ["-n", "kube-system", "ippools", "192.168.120.0-29"];
    wait_absent("Whereabouts' record is removed", 60, &first.container, &pools);
    let records = kubectl_get(&pools)["spec"].to_string();
    assert!(records.contains(&second.container), "the record of a running pod stays: {records}");
    let reservation = ["-n", "kube-system", "overlappingrangeipreservations", &first.address];
    wait_absent("Whereabouts' reservation is gone", 60, &first.name, &reservation);
    wait_absent("Spiderpool's record is gone", 60, &third.uid, &["spiderippool", POOL]);
    wait_absent("Spiderpool's endpoint is gone", 60, &third.uid, &["spiderendpoint", &third.name]);
    for pod in deleted {
        let lease = format!("grep -l {} /var/lib/cni/networks/lab/*; true", pod.container);
        assert_eq!(
            exec_on(&pod.node, &lease).stdout_or_panic(),
            "",
            "the default network's plugin was called, too"
        );
    }

    // Remove the legacy systems and their objects.
    for node in &nodes {
        exec_on(node, "rm -rf /etc/cni/net.d/00-multus.conf /etc/cni/net.d/multus.d").stdout_or_panic();
    }
    kubectl(&[
        "delete",
        "-n",
        "kube-system",
        "ippools,overlappingrangeipreservations",
        "-l",
        "app.kubernetes.io/managed-by!=ferroband",
    ])
    .stdout_or_panic();
    objects.apply(&pod_with_networks("after-range", &nodes[0], "old-range"));
    objects.apply(&pod_with_networks("after-pool", &nodes[1], "old-pooled"));
    assert_eq!(
        wait_addresses(&names("after-range", 0)),
        BTreeSet::from([first.address.clone()]),
        "the only free address"
    );
    assert_eq!(
        wait_addresses(&names("after-pool", 0)),
        BTreeSet::from([third.address.clone()]),
        "the only free address"
    );
    assert_eq!(pod_identity(&second.name), before[1], "the last legacy pod keeps running");
    kubectl(&["delete", "pod", &second.name, "--wait", "--timeout=60s"]).stdout_or_panic();
    wait_without_files(&second);
    wait_address_free("the last legacy address is free", 90, &second.address);
    objects.leave_to_lab_teardown();
}

/// `name-0`, `name-1`, …; with count 0 just `name`.
fn names(name: &str, count: usize) -> Vec<String> {
    match count {
        0 => vec![name.to_owned()],
        _ => (0..count).map(|number| format!("{name}-{number}")).collect(),
    }
}

/// Waits until the legacy state files of the pod are gone. The sandbox is removed after the pod object.
#[track_caller]
fn wait_without_files(pod: &LegacyPod) {
    eventually(&format!("the legacy files of {} are removed", pod.name), 60, || match pod.state_files() {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    });
}

/// The pod's networks annotation, as rewritten by ib-kubernetes.
fn networks_annotation(pod: &LegacyPod) -> Value {
    kubectl_get(&["pod", &pod.name])["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].clone()
}

/// Waits until the address is assigned to the pod in its AddressBlock.
#[track_caller]
fn wait_taken_over(pod: &LegacyPod) {
    eventually(&format!("{} of {} is taken over", pod.address, pod.name), 60, || {
        match address_holder(&pod.address) {
            Some(entry) if entry["uid"] == *pod.uid && entry["interface"] == "net1" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// The `allocatedIPs` of a SpiderIPPool.
fn allocated_ips(pool: &str) -> String {
    kubectl_get(&["spiderippool", pool])["status"]["allocatedIPs"].as_str().unwrap_or_default().to_owned()
}
