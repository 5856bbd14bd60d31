//! Spiderpool pools that are changed, overlap or are exhausted, and recreated sandboxes.

use ferroband_cluster_tests::inspect::assigned_addresses;
use ferroband_cluster_tests::ip_pools::{
    ipoib_network, pod_address, spider_ip_pool, spiderpool_ipam, wait_pod_warning,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_on, kubectl, kubectl_get, kubectl_with, node_names,
    pod_with_networks as pod, wait_pod_ready,
};
use serde_json::{Value, json};

/// Number of assigned addresses with this prefix.
fn assigned(prefix: &str) -> usize {
    assigned_addresses().iter().filter(|(address, _)| address.to_string().starts_with(prefix)).count()
}

// Case: ipam S09, ipam S10
#[test]
fn subnet_and_assigned_addresses_of_a_pool_cannot_be_changed() {
    let mut objects = TestObjects::default();
    objects.apply(&spider_ip_pool("s10", 151, &json!({})));
    objects.apply(&ipoib_network("s10", &spiderpool_ipam(&["s10"])));
    objects.apply(&pod("s10", &node_names()[0], "s10"));
    wait_pod_ready("s10", 90);
    assert_eq!(pod_address("s10"), "172.151.0.100");
    let patched = |spec: Value| {
        let patch = json!({ "spec": spec }).to_string();
        kubectl(&["patch", "spiderippool", "s10", "--type=merge", "-p", &patch])
    };
    let refused = patched(json!({"subnet": "172.151.0.0/17"})).err;
    assert!(refused.contains("subnet is immutable"), "{refused}");
    assert!(patched(json!({"ipVersion": 4})).ok);
    let refused = patched(json!({"ipVersion": 6})).err;
    assert!(refused.contains("ipVersion"), "{refused}");
    // Like Spiderpool, the cluster daemon sets the version again, so that a manifest without it can be applied again.
    assert!(patched(json!({"ipVersion": null})).ok);
    eventually("the pool has its IP version and the label with its subnet", 60, || {
        let pool = kubectl_get(&["spiderippool", "s10"]);
        let label = &pool["metadata"]["labels"]["ipam.spidernet.io/ippool-cidr"];
        match (&pool["spec"]["ipVersion"], label) {
            (version, label) if *version == 4 && *label == "172-151-0-0-16" => Ok(()),
            found => Err(format!("{found:?}")),
        }
    });
    eventually("the pool status lists the allocation", 60, || {
        let shown = kubectl_get(&["spiderippool", "s10"])["status"]["allocatedIPs"].to_string();
        if shown.contains("default/s10") { Ok(()) } else { Err(shown) }
    });
    let refused = patched(json!({"ips": ["172.151.0.110-172.151.0.120"]})).err;
    assert!(refused.contains("172.151.0.100") && refused.contains("default/s10"), "{refused}");
    assert!(
        patched(json!({"ips": ["172.151.0.100-172.151.0.105"]})).ok,
        "unassigned addresses can be removed"
    );
    kubectl(&["delete", "pod", "s10", "--wait"]).stdout_or_panic();
    eventually("the last allocation leaves the pool status", 60, || {
        let status = kubectl_get(&["spiderippool", "s10"])["status"].clone();
        let empty = status["allocatedIPs"].is_null() && status["allocatedIPCount"] == 0;
        if empty { Ok(()) } else { Err(status.to_string()) }
    });
    assert!(
        patched(json!({"ips": ["172.151.0.110-172.151.0.120"]})).ok,
        "addresses of deleted pods can be removed"
    );
}

// Case: ipam S12
#[test]
fn one_of_a_hundred_overlapping_pools_is_ready_and_no_address_is_assigned_twice() {
    let mut objects = TestObjects::default();
    let pools: Vec<Value> = (0..100)
        .map(|number| {
            serde_json::from_str(&spider_ip_pool(&format!("s12-{number:02}"), 152, &json!({}))).expect("JSON")
        })
        .collect();
    // In eight parallel requests.
    std::thread::scope(|scope| {
        for part in pools.chunks(13) {
            scope.spawn(move || {
                let list = json!({"apiVersion": "v1", "kind": "List", "items": part}).to_string();
                kubectl_with(&["create", "-f", "-"], &list).stdout_or_panic();
            });
        }
    });
    objects.track(&json!({"apiVersion": "v1", "kind": "List", "items": pools}).to_string());
    let ready = eventually("each pool has a condition", 120, || {
        let all = kubectl_get(&["spiderippools"]);
        let pools =
            all["items"].as_array().into_iter().flatten().filter(|pool| {
                pool["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("s12-"))
            });
        let conditions: Vec<(String, String)> = pools
            .filter_map(|pool| {
                let reason = pool["status"]["conditions"][0]["reason"].as_str()?;
                Some((pool["metadata"]["name"].as_str()?.to_owned(), reason.to_owned()))
            })
            .collect();
        let overlapping = conditions.iter().filter(|(_, reason)| reason == "Overlaps").count();
        let ready: Vec<_> =
            conditions.iter().filter(|(_, reason)| reason == "Ready").map(|(name, _)| name).collect();
        match ready[..] {
            [one] if overlapping == 99 => Ok(one.clone()),
            _ => Err(format!("{} ready, {overlapping} overlap", ready.len())),
        }
    });
    // All pools share one address space.
    let other = if ready == "s12-00" { "s12-01" } else { "s12-00" };
    for (name, from) in [("s12-ready", ready.as_str()), ("s12-other", other)] {
        objects.apply(&ipoib_network(name, &spiderpool_ipam(&[from])));
        objects.apply(&pod(name, &node_names()[0], name));
        wait_pod_ready(name, 90);
    }
    assert_eq!((&*pod_address("s12-ready"), &*pod_address("s12-other")), ("172.152.0.100", "172.152.0.101"));
}

// Case: ipam A05
#[test]
fn add_that_fails_leaves_no_address_assigned() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    for number in 1..=4 {
        let short = json!({"ips": [format!("172.{}.0.100", 160 + number)]});
        let more = if number == 4 { short } else { json!({}) };
        objects.apply(&spider_ip_pool(&format!("a05-{number}"), 160 + number, &more));
        objects
            .apply(&ipoib_network(&format!("a05-{number}"), &spiderpool_ipam(&[&format!("a05-{number}")])));
    }
    objects.apply(&pod("a05-first", &nodes[0], "a05-4"));
    wait_pod_ready("a05-first", 90);
    objects.apply(&pod("a05-late", &nodes[1], "a05-1,a05-2,a05-3,a05-4"));
    wait_pod_warning("a05-late", "all 1 addresses of a05-4 are assigned: 172.164.0.100 to default/a05-first");
    // Retries do not exhaust the other pools: at most one attempt holds addresses at a time.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let prefixes = ["172.161.", "172.162.", "172.163."];
    assert!(prefixes.iter().all(|prefix| assigned(prefix) <= 1), "failed attempts keep addresses");
    kubectl(&["delete", "pod", "a05-first", "--grace-period=0"]).stdout_or_panic();
    wait_pod_ready("a05-late", 120);
    kubectl(&["delete", "pod", "a05-late", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("no address is left assigned", 60, || {
        let left: usize = prefixes.iter().map(|prefix| assigned(prefix)).sum();
        if left == 0 { Ok(()) } else { Err(format!("{left} are assigned")) }
    });
}

// Case: ipam A21
#[test]
fn new_sandbox_of_a_running_pod_keeps_the_address() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply(&spider_ip_pool("a21", 171, &json!({})));
    objects.apply(&ipoib_network("a21", &spiderpool_ipam(&["a21"])));
    // Takes the first address, so that the second pod gets another one.
    objects.apply(&pod("a21-before", &node, "a21"));
    wait_pod_ready("a21-before", 90);
    objects.apply(&pod("a21", &node, "a21"));
    let uid = wait_pod_ready("a21", 90)["metadata"]["uid"].clone();
    assert_eq!(pod_address("a21"), "172.171.0.101");
    kubectl(&["delete", "pod", "a21-before", "--wait", "--timeout=60s", "--grace-period=0"])
        .stdout_or_panic();
    // The sandbox process is killed, and the kubelet creates a new sandbox.
    let sandbox = "for c in $(ctr -n k8s.io containers list -q); do \
        ctr -n k8s.io container info $c | grep -q '\"io.kubernetes.pod.name\": \"a21\"' && \
        ctr -n k8s.io container info $c | grep -q '\"io.cri-containerd.kind\": \"sandbox\"' && echo $c; done; true";
    let before = exec_on(&node, sandbox).stdout_or_panic();
    assert_eq!(before.lines().count(), 1, "{before}");
    exec_on(&node, &format!("ctr -n k8s.io task kill -s SIGKILL {}", before.trim())).stdout_or_panic();
    eventually("a new sandbox", 90, || {
        let now = exec_on(&node, sandbox).stdout_or_panic();
        if now.lines().any(|one| one != before.trim()) { Ok(()) } else { Err(now) }
    });
    let after = eventually("the pod runs in the new sandbox", 120, || {
        let pod = wait_pod_ready("a21", 120);
        let output = kubectl(&["exec", "a21", "--", "ip", "-br", "address", "show", "dev", "net1"]);
        if output.ok { Ok((pod, output.out)) } else { Err(output.err) }
    });
    assert_eq!(after.0["metadata"]["uid"], uid);
    assert!(after.1.contains("172.171.0.101/16"), "{}", after.1);
}
