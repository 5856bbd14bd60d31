//! Addresses of recreated pods: under the same name, after a power cut, after an API server outage.

use ferroband_cluster_tests::inspect::{
    assigned_addresses, audit_events, audit_log_length, first_ipv4, pod_interface,
};
use ferroband_cluster_tests::ip_pools::{
    address_holder, ipoib_network, pod_address, spider_ip_pool, wait_address_free,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_on, holds_for, kubectl, kubectl_get, kubectl_with, node_names,
    pod_with_networks as on_network, reboot_node, soak_rounds, start_own_lab, try_get, up_lab,
    wait_pod_ready, wait_pods_ready,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

fn whereabouts_ipam(range: &str) -> Value {
    json!({"type": "whereabouts", "range": range})
}

/// Assigned addresses with this prefix and their entries.
fn assigned(prefix: &str) -> BTreeMap<IpAddr, Value> {
    assigned_addresses().into_iter().filter(|(address, _)| address.to_string().starts_with(prefix)).collect()
}

// Case: ipam A26, ipam G03
#[test]
fn recreated_pod_gets_its_own_record_and_a_namesake_keeps_its_address() {
    start_own_lab(&["--nodes", "3"]);
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply("{apiVersion: v1, kind: Namespace, metadata: {name: g03}}");
    objects.apply(&ipoib_network("a26", &whereabouts_ipam("192.168.142.0/24")));
    let manifest = on_network("a26", &node, "default/a26");
    objects.apply(&manifest);
    let mut namesake: Value = serde_json::from_str(&manifest).expect("JSON");
    namesake["metadata"]["namespace"] = "g03".into();
    objects.apply(&namesake.to_string());
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let first = uid(&wait_pod_ready("a26", 90));
    let namesake_entry = eventually("the namesake's address", 90, || {
        let all = assigned("192.168.142.");
        all.into_iter().find(|(_, entry)| entry["pod"] == "g03/a26").ok_or_else(|| "none".to_owned())
    });

    // Force-deleted, and recreated before its node has removed the old sandbox.
    kubectl(&["delete", "pod", "a26", "--force", "--grace-period=0"]).stdout_or_panic();
    kubectl_with(&["apply", "-f", "-"], &manifest).stdout_or_panic();
    let second = wait_pod_ready("a26", 90);
    assert_ne!(uid(&second), first);
    let own = pod_address("a26");
    eventually("one record per pod", 90, || {
        let all = assigned("192.168.142.");
        let uids: Vec<_> =
            all.values().filter(|entry| entry["pod"] == "default/a26").map(|e| &e["uid"]).collect();
        let right = uids == [second["metadata"]["uid"].as_str().unwrap_or_default()];
        if right { Ok(()) } else { Err(format!("{all:?}")) }
    });
    assert_eq!(address_holder(&own).expect("its record")["uid"], second["metadata"]["uid"]);
    assert_eq!(
        assigned("192.168.142.").get(&namesake_entry.0),
        Some(&namesake_entry.1),
        "the namesake keeps its address"
    );
}

// Case: ipam A29
#[test]
fn del_during_an_api_server_outage_is_completed_afterwards() {
    start_own_lab(&["--nodes", "3"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    // One address, so that the next pod must get the same one.
    objects.apply(&ipoib_network("a29", &whereabouts_ipam("192.168.143.8-192.168.143.8/24")));
    objects.apply(&on_network("a29", &nodes[0], "a29"));
    wait_pod_ready("a29", 90);
    let address = pod_address("a29");
    let entry = address_holder(&address).expect("its record");
    let container = entry["container"].as_str().unwrap_or_default();
    // The runtime's DEL call for this sandbox.
    let args = format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=a29;K8S_POD_INFRA_CONTAINER_ID={container};K8S_POD_UID={}",
        entry["uid"].as_str().unwrap_or_default()
    );
    let conf = exec_on(&nodes[0], "cat /etc/cni/net.d/00-ferroband.conflist").stdout_or_panic();
    let conf: Value = serde_json::from_str(&conf).expect("a conflist");
    let mut plugin = conf["plugins"][0].clone();
    (plugin["name"], plugin["cniVersion"]) = (conf["name"].clone(), conf["cniVersion"].clone());
    let netns = format!(
        "grep -o '\"netns\":\"[^\"]*\"' /var/lib/ferroband/journal/{container}.json | cut -d'\"' -f4"
    );
    let call = format!(
        "echo '{plugin}' | CNI_COMMAND=DEL CNI_CONTAINERID={container} CNI_NETNS=$({netns}) CNI_IFNAME=eth0 \
         CNI_PATH=/opt/cni/bin CNI_ARGS='{args}' timeout 120 /opt/cni/bin/{}",
        plugin["type"].as_str().unwrap_or_default()
    );
    exec_on("control", "kill -9 $(cat /run/lab/kube-apiserver.pid)").stdout_or_panic();
    let deleted = std::panic::catch_unwind(|| {
        exec_on(&nodes[0], &call).stdout_or_panic();
        exec_on(&nodes[0], &call).stdout_or_panic();
    });
    up_lab(&[]);
    if let Err(panic) = deleted {
        std::panic::resume_unwind(panic);
    }
    wait_address_free("the pending release is completed", 120, &address);

    // The next pod keeps the address despite further DELs of the old sandbox.
    objects.apply(&on_network("a29-next", &nodes[0], "a29"));
    wait_pod_ready("a29-next", 90);
    assert_eq!(pod_address("a29-next"), address);
    exec_on(&nodes[0], &call).stdout_or_panic();
    kubectl(&["delete", "pod", "a29", "--force", "--grace-period=0"]).stdout_or_panic();
    holds_for("the next pod has the address", 12, || match address_holder(&address) {
        Some(entry) if entry["pod"] == "default/a29-next" => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

// Case: ipam S05, ipam W40
#[test]
fn overlapping_ranges_are_merged_and_sliced_networks_do_not_conflict() {
    start_own_lab(&["--nodes", "3"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&spider_ip_pool(
        "s05",
        131,
        &json!({"ips": ["172.131.0.100-172.131.0.105", "172.131.0.103-172.131.0.110"]}),
    ));
    // Two unnamed networks with different ranges and node slices ("fast IPAM"): upstream confuses them.
    for (name, range, slice) in [("w40-a", "192.168.144.0/24", "/28"), ("w40-b", "192.168.145.0/24", "28")] {
        let mut ipam = whereabouts_ipam(range);
        ipam["node_slice_size"] = slice.into();
        objects.apply(&ipoib_network(name, &ipam));
    }
    for (name, node) in [("w40-0", &nodes[0]), ("w40-1", &nodes[1])] {
        objects.apply(&on_network(name, node, "w40-a,w40-b"));
    }
    let mut addresses = BTreeSet::new();
    for name in ["w40-0", "w40-1"] {
        wait_pod_ready(name, 90);
        for (at, prefix) in [("net1", "192.168.144."), ("net2", "192.168.145.")] {
            let (address, length) = first_ipv4(&pod_interface(name, at));
            assert!(address.starts_with(prefix) && length == 24, "{name} {at}: {address}/{length}");
            assert!(addresses.insert(address.clone()), "{address} was assigned twice");
        }
    }
    eventually("eleven addresses, not fourteen", 60, || {
        let status = kubectl_get(&["spiderippool", "s05"])["status"].clone();
        if status["totalIPCount"] == 11 { Ok(()) } else { Err(status.to_string()) }
    });
}

/// Pods of a Deployment with eight networks are deleted and recreated at once. 4 here, 20 in `cargo xtask test soak`.
// Case: ipam X02
#[test]
fn pods_with_eight_networks_are_recreated_at_once_without_leaks() {
    start_own_lab(&["--nodes", "3"]);
    let pods = if soak_rounds() > 1 { 20 } else { 4 };
    let mut objects = TestObjects::default();
    let names: Vec<_> = (0..8).map(|rail| format!("x02-{rail}")).collect();
    for (rail, name) in names.iter().enumerate() {
        objects.apply(&ipoib_network(name, &whereabouts_ipam(&format!("192.168.{}.0/24", 150 + rail))));
    }
    objects.apply(&format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: x02}}, spec: {{replicas: {pods}, selector: \
         {{matchLabels: {{a: x02}}}}, template: {{metadata: {{labels: {{a: x02}}, annotations: \
         {{k8s.v1.cni.cncf.io/networks: \"{}\"}}}}, spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: \
         \"busybox:1\"}}]}}}}}}}}",
        names.join(",")
    ));
    wait_pods_ready("a=x02", pods, 180);
    let mark = audit_log_length();
    kubectl(&["delete", "pods", "-l", "a=x02", "--wait=false"]).stdout_or_panic();
    eventually("the new pods", 180, || {
        let list = try_get(&["pods", "-l", "a=x02"])?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let fresh = items.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        if fresh && items.len() == pods { Ok(()) } else { Err(format!("{} pods", items.len())) }
    });
    let uids: BTreeSet<_> =
        wait_pods_ready("a=x02", pods, 180).iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
    eventually("only the new pods have addresses", 90, || {
        let all = assigned("192.168.15");
        let owners: BTreeSet<_> = all.values().map(|entry| entry["uid"].to_string()).collect();
        if all.len() == 8 * pods && owners == uids {
            Ok(())
        } else {
            Err(format!("{} {owners:?}", all.len()))
        }
    });
    // An ADD writes its pod once. Block writes are batched over several ADDs and DELs.
    let writes: Vec<_> = audit_events(mark)
        .into_iter()
        .filter(|e| e["user"]["username"].as_str().is_some_and(|u| u.contains("ferroband-node")))
        .filter(|e| !["watch", "get", "list"].contains(&e["verb"].as_str().unwrap_or_default()))
        .collect();
    let of = |kind: &str| writes.iter().filter(|e| e["objectRef"]["resource"] == kind).count();
    println!("x02: {pods} pods, {} writes of pods, {} of address blocks", of("pods"), of("addressblocks"));
    assert!(of("pods") <= pods, "one write per pod: {}", of("pods"));
}

/// Only in `cargo xtask test soak`: three power cuts take a while.
// Case: ipam X04
#[test]
fn addresses_survive_a_power_cut_of_all_nodes() {
    start_own_lab(&["--nodes", "3"]);
    if soak_rounds() < 2 {
        return;
    }
    let mut objects = TestObjects::default();
    objects.apply(&ipoib_network("x04", &whereabouts_ipam("192.168.146.0/24")));
    for (kind, name, replicas, more) in [
        ("StatefulSet", "x04-set", 2, "serviceName: none, podManagementPolicy: Parallel, "),
        ("Deployment", "x04", 6, ""),
    ] {
        objects.apply(&format!(
            "{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{replicas: {replicas}, {more}selector: \
             {{matchLabels: {{a: {name}}}}}, template: {{metadata: {{labels: {{a: {name}}}, annotations: \
             {{k8s.v1.cni.cncf.io/networks: x04}}}}, spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, \
             image: \"ferroband.lab/tools:1\"}}]}}}}}}}}"
        ));
    }
    wait_pods_ready("a=x04", 6, 180);
    wait_pods_ready("a=x04-set", 2, 180);
    let before = (pod_address("x04-set-0"), pod_address("x04-set-1"));
    for node in node_names() {
        reboot_node(&node);
    }
    wait_pods_ready("a=x04", 6, 300);
    wait_pods_ready("a=x04-set", 2, 300);
    assert_eq!((pod_address("x04-set-0"), pod_address("x04-set-1")), before);
    eventually("no address is assigned to an old sandbox", 180, || {
        let remaining = assigned("192.168.146.");
        if remaining.len() == 8 { Ok(()) } else { Err(format!("{remaining:?}")) }
    });
}
