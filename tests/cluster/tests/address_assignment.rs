//! Addresses from pools and ranges on a real cluster: assignment, retention and release.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::ip_pools::{
    address_holder, ipoib_network, pod_address, spider_ip_pool, spiderpool_ipam, wait_address_free,
    wait_pod_warning,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, for_each_daemon, holds_for, kill_node_daemon, kubectl,
    kubectl_get, node_names, pod_with_annotations as pod, try_get, wait_pod_ready,
};
use serde_json::{Value, json};

// Case: ipam A01, ipam A02, ipam A06, ipam A17, ipam S15
#[test]
fn pool_of_the_pod_wins_and_reserved_or_disabled_addresses_are_not_assigned() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&spider_ip_pool("a01-a", 101, &json!({})));
    objects.apply(&spider_ip_pool(
        "a01-b",
        102,
        &json!({"ips": ["172.102.0.7"], "routes": [{"dst": "10.99.0.0/16", "gw": "172.102.0.9"}]}),
    ));
    objects.apply(&ipoib_network("a01", &spiderpool_ipam(&["a01-a"])));
    let annotated = |more: Value| {
        let mut annotations = json!({"k8s.v1.cni.cncf.io/networks": "a01"});
        for (key, value) in more.as_object().into_iter().flatten() {
            annotations[key] = value.clone();
        }
        annotations
    };
    objects.apply(&pod("a01-first", &nodes[0], &annotated(json!({}))));
    wait_pod_ready("a01-first", 90);
    assert_eq!(first_ipv4(&pod_interface("a01-first", "net1")), ("172.101.0.100".to_owned(), 16));
    let routes = exec_in_pod("a01-first", "ip route").stdout_or_panic();
    assert!(routes.contains("via 172.101.0.1 dev net1"), "{routes}");

    // The pod's annotation overrides the network's pool and adds that pool's routes.
    let own_pool = json!({"ipam.spidernet.io/ippool": r#"{"ipv4":["a01-b"]}"#});
    objects.apply(&pod("a01-own", &nodes[1], &annotated(own_pool.clone())));
    wait_pod_ready("a01-own", 90);
    assert_eq!(pod_address("a01-own"), "172.102.0.7");
    let routes = exec_in_pod("a01-own", "ip route").stdout_or_panic();
    assert!(routes.contains("10.99.0.0/16 via 172.102.0.9 dev net1"), "{routes}");
    // The pool had one address.
    objects.apply(&pod("a01-late", &nodes[0], &annotated(own_pool)));
    wait_pod_warning(
        "a01-late",
        "all IP addresses used out: all 1 addresses of a01-b are assigned: 172.102.0.7 to default/a01-own",
    );
    kubectl(&["delete", "pod", "a01-own", "--grace-period=0"]).stdout_or_panic();
    wait_pod_ready("a01-late", 120);
    assert_eq!(pod_address("a01-late"), "172.102.0.7");

    // Reserved addresses are skipped; a pod that already has one keeps it.
    objects.apply(
        "{apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderReservedIP, metadata: {name: a01}, spec: {ips: \
         [172.101.0.100-172.101.0.105]}}",
    );
    objects.apply(&pod("a01-second", &nodes[0], &annotated(json!({}))));
    wait_pod_ready("a01-second", 90);
    assert_eq!(pod_address("a01-second"), "172.101.0.106");
    assert_eq!(pod_address("a01-first"), "172.101.0.100");

    // The cluster daemon updates Spiderpool's objects a little later.
    eventually("the pool's status", 60, || {
        let status = kubectl_get(&["spiderippool", "a01-a"])["status"].clone();
        let records: Value =
            serde_json::from_str(status["allocatedIPs"].as_str().unwrap_or("{}")).unwrap_or_default();
        let right = status["allocatedIPCount"] == 2
            && status["totalIPCount"] == 21
            && records["172.101.0.100"]["pod"] == "default/a01-first";
        if right { Ok(()) } else { Err(status.to_string()) }
    });
    eventually("the pod's endpoint", 60, || {
        let endpoint = try_get(&["spiderendpoint", "a01-first"])?;
        let ip = &endpoint["status"]["current"]["ips"][0];
        let right =
            ip["ipv4"] == "172.101.0.100/16" && ip["ipv4Pool"] == "a01-a" && ip["interface"] == "net1";
        if right { Ok(()) } else { Err(endpoint["status"].to_string()) }
    });

    // A disabled pool assigns no more addresses; assigned ones stay.
    kubectl(&["patch", "spiderippool", "a01-a", "--type=merge", "-p", r#"{"spec":{"disable":true}}"#])
        .stdout_or_panic();
    objects.apply(&pod("a01-third", &nodes[1], &annotated(json!({}))));
    wait_pod_warning("a01-third", "a01-a has no assignable address");
    assert_eq!(pod_address("a01-first"), "172.101.0.100");
}

// Case: ipam A14, ipam A15, ipam S06, ipam S11
#[test]
fn filtered_and_overlapping_pools_are_reported_and_a_used_pool_is_deleted_last() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&spider_ip_pool("a14-node", 111, &json!({"nodeName": [nodes[0]]})));
    objects.apply(&spider_ip_pool("a14-net", 112, &json!({"multusName": ["kube-system/other"]})));
    objects.apply(&ipoib_network("a14", &spiderpool_ipam(&["a14-node", "a14-net"])));
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "a14"});
    objects.apply(&pod("a14-out", &nodes[1], &annotations));
    wait_pod_warning(
        "a14-out",
        &format!("a14-node does not allow node {}; a14-net does not allow network default/a14", nodes[1]),
    );
    objects.apply(&pod("a14-in", &nodes[0], &annotations));
    wait_pod_ready("a14-in", 90);
    assert_eq!(pod_address("a14-in"), "172.111.0.100");

    objects.apply(&spider_ip_pool("a14-twice", 111, &json!({"ips": ["172.111.0.110-172.111.0.130"]})));
    eventually("the newer pool reports the overlap", 60, || {
        let condition = kubectl_get(&["spiderippool", "a14-twice"])["status"]["conditions"][0].clone();
        let message = condition["message"].as_str().unwrap_or_default();
        let right = condition["reason"] == "Overlaps"
            && message.contains("172.111.0.110-172.111.0.120 is also in pool a14-node");
        if right { Ok(()) } else { Err(condition.to_string()) }
    });

    eventually("the pool has a finalizer", 60, || {
        let finalizers = kubectl_get(&["spiderippool", "a14-node"])["metadata"]["finalizers"].clone();
        if finalizers.to_string().contains("spiderpool.spidernet.io") {
            Ok(())
        } else {
            Err(finalizers.to_string())
        }
    });
    kubectl(&["delete", "spiderippool", "a14-node", "--wait=false"]).stdout_or_panic();
    assert_eq!(pod_address("a14-in"), "172.111.0.100");
    assert!(kubectl(&["get", "spiderippool", "a14-node"]).ok, "the pool in use is kept");
    kubectl(&["delete", "pod", "a14-in", "--grace-period=0"]).stdout_or_panic();
    eventually("the pool is deleted with its last address", 60, || {
        let output = kubectl(&["get", "spiderippool", "a14-node", "-o", "json"]);
        if output.ok { Err(output.out) } else { Ok(()) }
    });
}

// Case: ipam A23, ipam A24, ipam G05
#[test]
fn statefulset_pods_keep_their_addresses_until_scaled_down() {
    let mut objects = TestObjects::default();
    objects.apply(&spider_ip_pool("a23", 121, &json!({})));
    objects.apply(&ipoib_network("a23", &spiderpool_ipam(&["a23"])));
    objects.apply(
        "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a23}, spec: {replicas: 2, serviceName: none, \
         podManagementPolicy: Parallel, selector: {matchLabels: {a: a23}}, template: {metadata: {labels: {a: a23}, \
         annotations: {k8s.v1.cni.cncf.io/networks: a23}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, \
         image: \"ferroband.lab/tools:1\"}]}}}}",
    );
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let (first, before) = (wait_pod_ready("a23-0", 90), wait_pod_ready("a23-1", 90));
    let (zero, one) = (pod_address("a23-0"), pod_address("a23-1"));
    let node = first["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    // The pod must move to another node.
    kubectl(&["cordon", &node]).stdout_or_panic();
    kubectl(&["delete", "pod", "a23-0"]).stdout_or_panic();
    let after = eventually("the pod is recreated", 90, || {
        // The pod does not exist for a moment.
        let found = kubectl(&["get", "pod", "a23-0", "-o", "json"]);
        let pod: Value = serde_json::from_str(&found.out).map_err(|_| found.err)?;
        if uid(&pod) != uid(&first) { Ok(pod) } else { Err("not yet".to_owned()) }
    });
    let moved = wait_pod_ready("a23-0", 90);
    kubectl(&["uncordon", &node]).stdout_or_panic();
    assert_eq!(uid(&after), uid(&moved));
    assert_ne!(moved["spec"]["nodeName"], first["spec"]["nodeName"]);
    assert_eq!(pod_address("a23-0"), zero);

    kubectl(&["scale", "statefulset/a23", "--replicas=1"]).stdout_or_panic();
    wait_address_free("the address of the deleted pod is free", 90, &one);
    assert_eq!(pod_address("a23-0"), zero);
    assert_ne!(uid(&before), "");
}

// Case: ipam G01
#[test]
fn unreachable_node_keeps_its_addresses_until_it_is_fenced() {
    let (mut objects, node) = (TestObjects::default(), node_names()[1].clone());
    objects.apply(&ipoib_network("g01", &json!({"type": "whereabouts", "range": "192.168.131.0/24"})));
    objects.apply(&pod("g01", &node, &json!({"k8s.v1.cni.cncf.io/networks": "g01"})));
    wait_pod_ready("g01", 90);
    let address = pod_address("g01");
    // The node's pods keep running, but neither daemon nor kubelet responds.
    let signal = |name: &str| {
        for_each_daemon(&node, "node", &format!("kill -{name} $pid"));
        exec_on(&node, &format!("kill -{name} $(cat /run/lab/kubelet.pid)")).stdout_or_panic();
    };
    signal("STOP");
    let resume = || {
        signal("CONT");
        kubectl(&["taint", "node", &node, "node.kubernetes.io/out-of-service-"]);
    };
    kubectl(&["delete", "pod", "g01", "--force", "--grace-period=0"]).stdout_or_panic();
    let result = std::panic::catch_unwind(|| {
        holds_for("the address stays assigned", 25, || {
            address_holder(&address).map(drop).ok_or_else(|| "it was released".to_owned())
        });
        let fence = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
        kubectl(&["taint", "node", &node, fence]).stdout_or_panic();
        wait_address_free("the address of a fenced node is free", 60, &address);
    });
    resume();
    eventually("the node is Ready again", 120, || {
        let conditions = kubectl_get(&["node", &node])["status"]["conditions"].clone();
        let ready = conditions
            .as_array()
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready { Ok(()) } else { Err(conditions.to_string()) }
    });
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

// Case: ipam W01, ipam W32, ipam W41
#[test]
fn whereabouts_records_are_written_imported_and_repaired() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    // An allocation that Whereabouts made before; the pod has no network-status.
    objects.apply_pod("w41-old", &node).apply(
        "{apiVersion: whereabouts.cni.cncf.io/v1alpha1, kind: IPPool, metadata: {name: 192.168.132.0-24, namespace: \
         kube-system}, spec: {range: 192.168.132.0/24, allocations: {\"1\": {id: old, podref: default/w41-old, ifname: net1}}}}",
    );
    eventually("the record is imported", 30, || {
        address_holder("192.168.132.1").map(drop).ok_or_else(|| "no entry yet".to_owned())
    });
    objects.apply(&ipoib_network("w41", &json!({"type": "whereabouts", "range": "192.168.132.0/24"})));
    objects.apply(&ipoib_network("w01", &json!({"type": "whereabouts", "range": "192.168.133.0/24"})));
    objects.apply(&pod("w01", &node, &json!({"k8s.v1.cni.cncf.io/networks": "w01,w41"})));
    wait_pod_ready("w01", 90);
    assert_eq!(pod_address("w01"), "192.168.133.1");
    let second = first_ipv4(&pod_interface("w01", "net2")).0;
    assert!(
        second.starts_with("192.168.132.") && second != "192.168.132.1",
        "{second}: the first address is taken"
    );
    eventually("Whereabouts' own records", 60, || {
        let output = kubectl(&[
            "-n",
            "kube-system",
            "get",
            "ippools.whereabouts.cni.cncf.io",
            "192.168.133.0-24",
            "-o",
            "json",
        ]);
        let pool: Value = serde_json::from_str(&output.out).map_err(|_| output.err)?;
        let first = &pool["spec"]["allocations"]["1"];
        let reserved =
            kubectl(&["-n", "kube-system", "get", "overlappingrangeipreservations", "192.168.133.1"]);
        let right = first["podref"] == "default/w01" && first["ifname"] == "net1" && reserved.ok;
        if right { Ok(()) } else { Err(format!("{pool} {}", reserved.err)) }
    });

    // An entry whose sandbox never existed on its node: the node finds it at its next start and releases it.
    let name = "default-192.168.133.0";
    let entry = json!({"pod": "default/lost", "uid": "nobody", "interface": "net1", "container": "lost", "node": node});
    let patch = json!({"spec": {"entries": {"9": entry}}}).to_string();
    kubectl(&["patch", "addressblocks.ferroband.io", name, "--type=merge", "-p", &patch]).stdout_or_panic();
    kill_node_daemon(&node);
    wait_address_free("the orphaned entry is released", 90, "192.168.133.9");
    assert!(address_holder("192.168.133.1").is_some(), "a running pod keeps its address");

    // After an etcd restore the API server may lack entries of running pods.
    let patch = json!([{"op": "replace", "path": "/spec/entries", "value": {}}]);
    kubectl(&["patch", "addressblocks.ferroband.io", name, "--type=json", "-p", &patch.to_string()])
        .stdout_or_panic();
    kill_node_daemon(&node);
    eventually("the entry of the running pod is restored", 90, || match address_holder("192.168.133.1") {
        Some(entry) if entry["pod"] == "default/w01" => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

// Case: ipam W38
#[test]
fn requested_address_is_recorded_inside_the_range_and_refused_outside() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&ipoib_network("requested", &json!({"type": "whereabouts", "range": "10.77.0.0/24"})));
    let requesting = |ip: &str| {
        let networks = json!([{"name": "requested", "ips": [ip]}]).to_string();
        json!({ "k8s.v1.cni.cncf.io/networks": networks })
    };
    objects.apply(&pod("requested-in", &nodes[0], &requesting("10.77.0.50/24")));
    wait_pod_ready("requested-in", 90);
    assert_eq!(first_ipv4(&pod_interface("requested-in", "net1")), ("10.77.0.50".to_owned(), 24));
    let holder = address_holder("10.77.0.50").map(|entry| entry["pod"].clone());
    assert_eq!(holder, Some(json!("default/requested-in")));
    objects.apply(&pod("requested-out", &nodes[0], &requesting("10.77.99.1/24")));
    wait_pod_warning("requested-out", "10.77.0.0/24 (10.77.0.1-10.77.0.254)");
    objects.apply(&pod("requested-same", &nodes[1], &requesting("10.77.0.50")));
    wait_pod_warning("requested-same", "assigned to default/requested-in");
}

// Case: ipam W41
#[test]
fn stale_whereabouts_record_of_a_pod_gives_it_the_address_again() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let record = json!({"id": "stale", "podref": "default/w41-again", "ifname": "net1"});
    objects.apply(
        &json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": "192.168.134.0-30", "namespace": "kube-system"},
            "spec": {"range": "192.168.134.0/30", "allocations": {"1": record, "2": record}},
        })
        .to_string(),
    );
    objects.apply(&ipoib_network("w41-again", &json!({"type": "whereabouts", "range": "192.168.134.0/30"})));
    objects.apply(&pod("w41-again", &node, &json!({"k8s.v1.cni.cncf.io/networks": "w41-again"})));
    wait_pod_ready("w41-again", 90);
    let address = first_ipv4(&pod_interface("w41-again", "net1")).0;
    assert!(address.starts_with("192.168.134."), "{address}");
}
