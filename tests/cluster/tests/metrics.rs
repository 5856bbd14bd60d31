//! Metrics of a node as Prometheus would scrape them.

use ferroband_cluster_tests::hardware::{
    ADAPTER, SimulatedVfs, apply_device_config, resource_pod, wait_allocatable,
};
use ferroband_cluster_tests::{TestObjects, eventually, exec_in_pod, exec_on, node_names};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const RESOURCE: &str = "openshift.io/counted";

/// Scrapes the metrics; returns sysfs counters read directly before, the page, and sysfs counters read directly after.
fn scrape(node: &str) -> (BTreeMap<String, u64>, String, BTreeMap<String, u64>) {
    let read = "(cd /var/lib/ferroband/sim/sys/class/infiniband && for f in */ports/1/counters/* */ports/1/hw_counters/*; do \
        echo \"$f $(cat $f)\"; done)";
    let page = "curl -sf http://127.0.0.1:5711/metrics";
    let output = exec_on(node, &format!("{page} >/dev/null; {read}; echo ===; {page}; echo ===; {read}"))
        .stdout_or_panic();
    let parts: Vec<&str> = output.split("===\n").collect();
    let [before, page, after] = parts[..] else { panic!("{output}") };
    let numbers = |text: &str| -> BTreeMap<String, u64> {
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| !name.ends_with("/lifespan"))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    };
    (numbers(before), page.to_owned(), numbers(after))
}

fn value(page: &str, metric: &str, device: &str) -> Option<u64> {
    let label = format!("ifname=\"{device}\"");
    let line = page.lines().find(|l| l.starts_with(&format!("{metric}{{")) && l.contains(&label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn metrics_match_sysfs_and_name_the_pod() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let functions = SimulatedVfs::create(&node, 2);
    let pool = json!({"resourceList": [{"resourcePrefix": "openshift.io", "resourceName": "counted",
        "selectors": {"devices": ["1018"], "isRdma": true}}]});
    apply_device_config(&mut objects, &[("sriov.json", pool)]);
    wait_allocatable(&node, RESOURCE, "2");
    objects.apply(&resource_pod("counted", &node, RESOURCE, 1));
    objects.wait_ready("counted", 90);
    let errors = value(&scrape(&node).1, "rdma_symbol_error_total", ADAPTER).expect("the counter");
    functions.sim(&format!("count {ADAPTER} symbol_error --by 41"));
    functions.sim(&format!("count {ADAPTER} out_of_sequence --by 7"));

    let (before, page, after) = scrape(&node);
    assert!(before.len() > 100, "three devices: {before:?}");
    for (name, least) in &before {
        let (device, counter) =
            (name.split('/').next().expect("present"), name.rsplit('/').next().expect("present"));
        let metric = format!("rdma_{}_total", counter.to_lowercase());
        let scraped =
            value(&page, &metric, device).unwrap_or_else(|| panic!("no {metric} of {device}\n{page}"));
        // Traffic continues between the three reads.
        let most = after.get(name).copied().unwrap_or(u64::MAX);
        assert!((*least..=most).contains(&scraped), "{name}: {least}, {scraped}, {most}");
    }
    assert_eq!(value(&page, "rdma_symbol_error_total", ADAPTER), Some(errors + 41));
    assert_eq!(value(&page, "rdma_port_state", ADAPTER), Some(4));
    let info = exec_in_pod("counted", "echo $PCIDEVICE_OPENSHIFT_IO_COUNTED_INFO").stdout_or_panic();
    let device =
        info.split("\"rdma_dev\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("present");
    let pods: Vec<&str> = page.lines().filter(|line| line.contains("pod_name=\"counted\"")).collect();
    assert!(!pods.is_empty(), "{page}");
    assert!(pods.iter().all(|line| line.contains(&format!("ifname=\"{device}\""))), "{pods:?}");
    promtool(&page);
}

// Case: ipam R01
#[test]
fn metrics_include_devices_in_a_pods_rdma_namespace() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let functions = SimulatedVfs::create(&node, 1);
    objects.apply_pod("apart", &node);
    objects.wait_ready("apart", 60);
    let device = functions.rdma_device(0);
    functions.sim("netns exclusive");
    functions.sim(&format!("count {device} out_of_sequence --by 5"));
    // The pod's network namespace, as bind-mounted by the runtime.
    let own = exec_in_pod("apart", "readlink /proc/self/ns/net").stdout_or_panic();
    let inode = own.trim().trim_start_matches("net:[").trim_end_matches(']').to_owned();
    let find =
        format!("for f in /var/run/netns/*; do [ $(stat -L -c %i $f) = {inode} ] && echo $f; done; true");
    let pinned = exec_on(&node, &find).stdout_or_panic();
    functions.sim(&format!("move {device} {}", pinned.trim()));
    // A whole word: the name may be the beginning of another one.
    let visible = exec_on(&node, "ferroband inspect").stdout_or_panic();
    let mut words = visible.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    assert!(!words.any(|word| word == device), "{device} is visible on the host:\n{visible}");
    let page = exec_on(&node, "curl -sf http://127.0.0.1:5711/metrics").stdout_or_panic();
    assert_eq!(value(&page, "rdma_out_of_sequence_total", &device), Some(5), "{page}");
    let line = page.lines().find(|l| l.starts_with("rdma_out_of_sequence_total") && l.contains(&device));
    assert!(line.expect("present").contains("pod_namespace=\"default\",pod_name=\"apart\""), "{line:?}");
    promtool(&page);
}

/// Checks the page with promtool.
fn promtool(page: &str) {
    let program = std::env::var("FERROBAND_PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let mut child = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, installed by `cargo xtask test cluster`");
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && words.trim().is_empty(), "{}: {words}", output.status);
}

#[test]
fn node_condition_names_invalid_pools_and_valid_pools_stay() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let _functions = SimulatedVfs::create(&node, 4);
    let valid = json!({"resourceList": [{"resourcePrefix": "openshift.io", "resourceName": "right",
        "selectors": {"devices": ["1018"], "isRdma": true}}]});
    apply_device_config(&mut objects, &[("right.json", valid.clone())]);
    wait_allocatable(&node, "openshift.io/right", "4");
    objects.apply(&resource_pod("unharmed", &node, "openshift.io/right", 1));
    objects.wait_ready("unharmed", 90);
    let invalid = json!({"resourceList": [
        {"resourcePrefix": "openshift.io", "resourceName": "nobody", "selectors": {"vendors": ["ffff"]}},
        {"resourcePrefix": "openshift.io", "resourceName": "misspelt", "selectors": {"devices": ["1018"]}, "selektor": 1},
    ]});
    apply_device_config(
        &mut objects,
        &[("right.json", valid), ("wrong.json", invalid), ("broken.json", json!("{\"resourceList\":"))],
    );
    let condition = eventually("the condition names the invalid pools", 120, || {
        let object = ferroband_cluster_tests::kubectl_get(&["node", &node]);
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = all.iter().find(|c| c["type"] == "FerrobandDevices").cloned().unwrap_or_default();
        let message = condition["message"].as_str().unwrap_or_default();
        let expected_parts = [
            "broken.json: is not JSON",
            "wrong.json: resourceList[1].selektor: unknown",
            "wrong.json: resourceList[0].selectors: no function on this node matches",
            "a device is in one pool only",
        ];
        let named = expected_parts.iter().all(|words| message.contains(words));
        if named { Ok(condition) } else { Err(condition.to_string()) }
    });
    assert_eq!(condition["status"], "False", "{condition}");
    wait_allocatable(&node, "openshift.io/right", "4");
    // An allocated device stays usable when its pool is removed.
    apply_device_config(&mut objects, &[("empty.json", json!({"resourceList": []}))]);
    wait_allocatable(&node, "openshift.io/right", "0");
    exec_in_pod("unharmed", "exec 3<>/dev/infiniband/rdma_cm").stdout_or_panic();
    let pod = ferroband_cluster_tests::kubectl_get(&["pod", "unharmed"]);
    assert_eq!(
        (&pod["status"]["phase"], &pod["status"]["containerStatuses"][0]["restartCount"]),
        (&json!("Running"), &json!(0))
    );
}
