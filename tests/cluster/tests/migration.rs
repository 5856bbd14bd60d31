//! A cluster of Multus, Whereabouts, Spiderpool and ib-kubernetes gets Ferroband over it: its pods keep what they have and are deleted by
//! Ferroband, new ones get nothing of it; then the old systems go.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::hardware::pod_identity;
use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::ip_pools::{
    address_holder, ipoib_config, pod_address, spiderpool_ipam, wait_address_free,
};
use ferroband_cluster_tests::legacy_stack::{self, LegacyPod, apply_network, wait_absent};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_on, kubectl, kubectl_get, node_names, pod_with_networks, run_lab,
    start_bare_lab,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Six addresses: who gives out one twice soon does.
const RANGE: &str = "192.168.120.0/29";
const RED: u16 = 0x3e8;
const POOL: &str = "old-pool";

#[test]
fn old_pods_keep_their_addresses_new_ones_get_others_and_the_old_systems_go() {
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
    let asked = networks(&member);
    let before: Vec<Value> = old.iter().map(|pod| pod_identity(&pod.name)).collect();

    run_lab(&["up", "--install"]).stdout_or_panic();

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
        taken_over(pod);
    }
    // Spiderpool's controller has been at work a moment ago: what it wrote is its own.
    assert!(!shown(POOL).contains("ferroband"), "{}", shown(POOL));

    // ib-kubernetes' Secret and ConfigMap serve us, too; what it put into a partition is not ours to take out.
    let fabric = UfmFabric::up();
    fabric.ufm.add_foreign_member(RED, legacy_stack::GUID.parse().expect("a GUID"));
    eventually("its GUID is told as a stranger", 60, || {
        let told = kubectl_get(&["fabrics.ferroband.io"])["items"][0]["status"]["orphans"].to_string();
        if told.contains(legacy_stack::GUID) { Ok(()) } else { Err(told) }
    });
    assert_eq!(networks(&member), asked, "ib-kubernetes' marks stay as they are");

    // Four are left of the range, three of the pool.
    let (fourth, fifth) = (names("new-range", 4), names("new-pool", 3));
    for (position, name) in fourth.iter().enumerate() {
        objects.apply(&pod_with_networks(name, &nodes[position % 2], "old-range"));
    }
    for (position, name) in fifth.iter().enumerate() {
        objects.apply(&pod_with_networks(name, &nodes[position % 2], "old-pooled"));
    }
    let given = |names: &[String]| -> BTreeSet<String> {
        names.iter().for_each(|name| drop(ferroband_cluster_tests::wait_pod_ready(name, 120)));
        names.iter().map(|name| pod_address(name)).collect()
    };
    let expected =
        |prefix: &str, from: u8, to: u8| (from..=to).map(|last| format!("{prefix}{last}")).collect();
    assert_eq!(given(&fourth), expected("192.168.120.", 3, 6), "new pods get what was free of the range");
    assert_eq!(given(&fifth), expected("172.120.0.", 101, 103), "new pods get what was free of the pool");

    // Spiderpool goes; its record becomes ours.
    kubectl(&["-n", "kube-system", "delete", "lease", "spiderpool-controller-leases"]).stdout_or_panic();
    taken_over(&third);

    // Old pods are deleted by us, from the old files and with the old records.
    let deleted = [&first, &third, &member];
    let called = deleted.map(|pod| pod.name.as_str());
    kubectl(&[&["delete", "pod", "--wait", "--timeout=60s"], &called[..]].concat()).stdout_or_panic();
    for pod in deleted {
        without_files(pod);
        wait_address_free(&format!("the address of {} is free", pod.name), 90, &pod.address);
    }
    assert_eq!(
        fabric.members(RED),
        [legacy_stack::GUID],
        "what ib-kubernetes put in stays until somebody takes it out"
    );
    let pools = ["-n", "kube-system", "ippools", "192.168.120.0-29"];
    wait_absent("Whereabouts' record is struck out", 60, &first.container, &pools);
    let kept = kubectl_get(&pools)["spec"].to_string();
    assert!(kept.contains(&second.container), "the record of a pod that runs stands: {kept}");
    let reservation = ["-n", "kube-system", "overlappingrangeipreservations", &first.address];
    wait_absent("Whereabouts' reservation is gone", 60, &first.name, &reservation);
    wait_absent("Spiderpool's record is gone", 60, &third.uid, &["spiderippool", POOL]);
    wait_absent("Spiderpool's endpoint is gone", 60, &third.uid, &["spiderendpoint", &third.name]);
    for pod in deleted {
        let lease = format!("grep -l {} /var/lib/cni/networks/lab/*; true", pod.container);
        assert_eq!(
            exec_on(&pod.node, &lease).stdout_or_panic(),
            "",
            "the default network's own plugin was asked, too"
        );
    }

    // The old systems go, with everything that is theirs.
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
        given(&names("after-range", 0)),
        BTreeSet::from([first.address.clone()]),
        "the only one that is free"
    );
    assert_eq!(
        given(&names("after-pool", 0)),
        BTreeSet::from([third.address.clone()]),
        "the only one that is free"
    );
    assert_eq!(pod_identity(&second.name), before[1], "the last old pod runs on");
    kubectl(&["delete", "pod", &second.name, "--wait", "--timeout=60s"]).stdout_or_panic();
    without_files(&second);
    wait_address_free("the last old address is free", 90, &second.address);
    objects.leave_to_lab_teardown();
}

/// `name-0`, `name-1`, …; for none of them the name itself.
fn names(name: &str, count: usize) -> Vec<String> {
    match count {
        0 => vec![name.to_owned()],
        _ => (0..count).map(|number| format!("{name}-{number}")).collect(),
    }
}

/// The old systems' files about the pod are gone. Its object goes before its sandbox does.
#[track_caller]
fn without_files(pod: &LegacyPod) {
    eventually(&format!("the old files of {} go with it", pod.name), 60, || match pod.state_files() {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    });
}

/// What the pod asks for, as ib-kubernetes rewrote it.
fn networks(pod: &LegacyPod) -> Value {
    kubectl_get(&["pod", &pod.name])["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].clone()
}

/// The API server has the address as the pod's.
#[track_caller]
fn taken_over(pod: &LegacyPod) {
    eventually(&format!("{} of {} is taken over", pod.address, pod.name), 60, || {
        match address_holder(&pod.address) {
            Some(entry) if entry["uid"] == *pod.uid && entry["interface"] == "net1" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// The records that a pool shows.
fn shown(pool: &str) -> String {
    kubectl_get(&["spiderippool", pool])["status"]["allocatedIPs"].as_str().unwrap_or_default().to_owned()
}
