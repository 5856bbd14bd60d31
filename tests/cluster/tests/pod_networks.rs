//! Several networks on one pod, in both forms of the annotation, and third-party plugins.

use ferroband_cluster_tests::inspect::{
    audit_events, audit_log_length, first_ipv4, network_status, pod_interface,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, network_definition, node_names, pod_with_networks as pod,
};
use serde_json::json;

fn ipoib(name: &str, third: usize) -> String {
    let range = format!("192.168.{third}.0/24");
    let ipam = json!({"type": "whereabouts", "range": range});
    let config =
        json!({"cniVersion": "0.3.1", "name": name, "type": "ipoib", "master": "ibs5f0", "ipam": ipam});
    network_definition(name, &config).to_string()
}

#[test]
fn networks_annotation_accepts_text_and_json() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    for (name, third) in [("tri-a", 61), ("tri-b", 62), ("tri-c", 63)] {
        objects.apply(&ipoib(name, third));
    }
    let listed = r#"[{"name": "tri-a"}, {"name": "tri-b", "interface": "ib-b"}, {"name": "tri-c", "namespace": "default"}]"#;
    objects.apply(&pod("in-text", &nodes[0], "tri-a, default/tri-b@ib-b ,tri-c"));
    objects.apply(&pod("in-json", &nodes[1], listed));
    for name in ["in-text", "in-json"] {
        let status = network_status(&objects.wait_ready(name, 60));
        let interfaces: Vec<&str> = status.iter().filter_map(|e| e["interface"].as_str()).collect();
        assert_eq!(interfaces, ["eth0", "net1", "ib-b", "net3"], "{name}");
        for (at, third) in [("net1", 61), ("ib-b", 62), ("net3", 63)] {
            let (address, prefix) = first_ipv4(&pod_interface(name, at));
            assert!(
                address.starts_with(&format!("192.168.{third}.")) && prefix == 24,
                "{name} {at} {address}"
            );
        }
    }
    let (there, _) = first_ipv4(&pod_interface("in-json", "ib-b"));
    exec_in_pod("in-text", &format!("ping -c 2 -w 15 -I ib-b {there}")).stdout_or_panic();
}

#[test]
fn eight_networks_need_no_api_reads_and_one_pod_write() {
    let mut objects = TestObjects::default();
    let names: Vec<String> = (0..8).map(|n| format!("oct-{n}")).collect();
    for (position, name) in names.iter().enumerate() {
        objects.apply(&ipoib(name, 70 + position));
    }
    let mark = audit_log_length();
    objects.apply(&pod("octopus", &node_names()[0], &names.join(",")));
    let status = network_status(&objects.wait_ready("octopus", 60));
    assert_eq!(status.len(), 9, "{status:?}");
    let requests: Vec<String> = eventually("the audit log", 10, || {
        let lines: Vec<String> = audit_events(mark)
            .iter()
            .filter(|e| e["user"]["username"].as_str().is_some_and(|u| u.contains("ferroband-node")))
            .filter(|e| e["verb"] != "watch" && e["objectRef"]["resource"] != "nodes")
            .map(|e| {
                format!(
                    "{} {}",
                    e["verb"].as_str().unwrap_or(""),
                    e["objectRef"]["resource"].as_str().unwrap_or("")
                )
            })
            .collect();
        if lines.iter().any(|l| l == "patch pods") { Ok(lines) } else { Err(format!("{lines:?}")) }
    });
    assert_eq!(requests.iter().filter(|l| l.ends_with(" pods")).count(), 1, "{requests:?}");
    assert!(
        !requests.iter().any(|l| l.starts_with("get") || l.starts_with("list")),
        "no reads: {requests:?}"
    );
    // Eight pools have eight address blocks.
    assert_eq!(requests.iter().filter(|l| l.ends_with("addressblocks")).count(), 8, "{requests:?}");
}

#[test]
fn chain_of_third_party_plugins_works_beside_ipoib() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let chain = json!({
        "cniVersion": "1.0.0", "name": "foreign", "plugins": [
            {"type": "bridge", "bridge": "foreign0", "ipam": {"type": "host-local", "subnet": "10.99.0.0/24"}},
            {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_announce": "2"}},
        ],
    });
    objects.apply(&network_definition("foreign", &chain).to_string()).apply(&ipoib("beside", 64));
    objects.apply(&pod("mixed", &nodes[0], "foreign,beside"));
    objects.wait_ready("mixed", 60);
    assert!(first_ipv4(&pod_interface("mixed", "net1")).0.starts_with("10.99.0."));
    assert_eq!(
        exec_in_pod("mixed", "cat /proc/sys/net/ipv4/conf/net1/arp_announce").stdout_or_panic().trim(),
        "2"
    );
    assert!(first_ipv4(&pod_interface("mixed", "net2")).0.starts_with("192.168.64."));
    drop(objects);
    // The bridge belongs to the plugin and stays; its port and the lease are removed with the pod.
    eventually("the host-local lease is released", 30, || {
        let left = ferroband_cluster_tests::exec_on(
            &nodes[0],
            "ls /var/lib/cni/networks/foreign | grep -c '^10[.]' || true",
        );
        if left.out.trim() == "0" { Ok(()) } else { Err(left.out) }
    });
    ferroband_cluster_tests::exec_on(&nodes[0], "ip link delete foreign0").stdout_or_panic();
}
