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

/// The page, and right before and after it the counters in sysfs, by device, folder and name.
fn scrape(node: &str) -> (BTreeMap<String, u64>, String, BTreeMap<String, u64>) {
    let read = "(cd /var/lib/ferroband/sim/sys/class/infiniband && for f in */ports/1/counters/* */ports/1/hw_counters/*; do \
        echo \"$f $(cat $f)\"; done)";
    let page = "curl -sf http://127.0.0.1:5711/metrics";
    let said = exec_on(node, &format!("{page} >/dev/null; {read}; echo ===; {page}; echo ===; {read}"))
        .stdout_or_panic();
    let parts: Vec<&str> = said.split("===\n").collect();
    let [before, page, after] = parts[..] else { panic!("{said}") };
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
fn counters_are_what_sysfs_says_at_the_same_time_and_carry_the_pod() {
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
            (name.split('/').next().expect("it is there"), name.rsplit('/').next().expect("it is there"));
        let metric = format!("rdma_{}_total", counter.to_lowercase());
        let seen = value(&page, &metric, device).unwrap_or_else(|| panic!("no {metric} of {device}\n{page}"));
        // Traffic goes on between the three looks.
        let most = after.get(name).copied().unwrap_or(u64::MAX);
        assert!((*least..=most).contains(&seen), "{name}: {least}, {seen}, {most}");
    }
    assert_eq!(value(&page, "rdma_symbol_error_total", ADAPTER), Some(errors + 41));
    assert_eq!(value(&page, "rdma_port_state", ADAPTER), Some(4));
    let held = exec_in_pod("counted", "echo $PCIDEVICE_OPENSHIFT_IO_COUNTED_INFO").stdout_or_panic();
    let device =
        held.split("\"rdma_dev\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("it is there");
    let pods: Vec<&str> = page.lines().filter(|line| line.contains("pod_name=\"counted\"")).collect();
    assert!(!pods.is_empty(), "{page}");
    assert!(pods.iter().all(|line| line.contains(&format!("ifname=\"{device}\""))), "{pods:?}");
    promtool(&page);
}

#[test]
fn a_device_in_a_pods_rdma_namespace_is_counted_for_the_pod() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let functions = SimulatedVfs::create(&node, 1);
    objects.apply_pod("apart", &node);
    objects.wait_ready("apart", 60);
    functions.sim("netns exclusive");
    functions.sim("count mlx5_1 out_of_sequence --by 5");
    // The namespace of the pod, as its runtime pins it.
    let own = exec_in_pod("apart", "readlink /proc/self/ns/net").stdout_or_panic();
    let inode = own.trim().trim_start_matches("net:[").trim_end_matches(']').to_owned();
    let find =
        format!("for f in /var/run/netns/*; do [ $(stat -L -c %i $f) = {inode} ] && echo $f; done; true");
    let pinned = exec_on(&node, &find).stdout_or_panic();
    functions.sim(&format!("move mlx5_1 {}", pinned.trim()));
    assert!(
        !exec_on(&node, "ferroband inspect").stdout_or_panic().contains("mlx5_1"),
        "it is out of the host's sight"
    );
    let page = exec_on(&node, "curl -sf http://127.0.0.1:5711/metrics").stdout_or_panic();
    assert_eq!(value(&page, "rdma_out_of_sequence_total", "mlx5_1"), Some(5), "{page}");
    let line = page.lines().find(|l| l.starts_with("rdma_out_of_sequence_total") && l.contains("mlx5_1"));
    assert!(line.expect("it is there").contains("pod_namespace=\"default\",pod_name=\"apart\""), "{line:?}");
    promtool(&page);
}

/// Prometheus' own judgement of the page.
fn promtool(page: &str) {
    let program = std::env::var("FERROBAND_PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let mut child = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, which `cargo xtask test cluster` installs");
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("promtool reads");
    let said = child.wait_with_output().expect("promtool ends");
    let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && words.trim().is_empty(), "{}: {words}", said.status);
}

#[test]
fn a_wrong_pool_is_named_in_the_nodes_condition_and_the_others_stand() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let _functions = SimulatedVfs::create(&node, 4);
    let good = json!({"resourceList": [{"resourcePrefix": "openshift.io", "resourceName": "right",
        "selectors": {"devices": ["1018"], "isRdma": true}}]});
    apply_device_config(&mut objects, &[("right.json", good.clone())]);
    wait_allocatable(&node, "openshift.io/right", "4");
    objects.apply(&resource_pod("unharmed", &node, "openshift.io/right", 1));
    objects.wait_ready("unharmed", 90);
    let bad = json!({"resourceList": [
        {"resourcePrefix": "openshift.io", "resourceName": "nobody", "selectors": {"vendors": ["ffff"]}},
        {"resourcePrefix": "openshift.io", "resourceName": "misspelt", "selectors": {"devices": ["1018"]}, "selektor": 1},
    ]});
    apply_device_config(
        &mut objects,
        &[("right.json", good), ("wrong.json", bad), ("broken.json", json!("{\"resourceList\":"))],
    );
    let condition = eventually("the condition names what is wrong", 120, || {
        let object = ferroband_cluster_tests::kubectl_get(&["node", &node]);
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = all.iter().find(|c| c["type"] == "FerrobandDevices").cloned().unwrap_or_default();
        let message = condition["message"].as_str().unwrap_or_default();
        let said = [
            "broken.json: is not JSON",
            "wrong.json: resourceList[1].selektor: unknown",
            "wrong.json: resourceList[0].selectors: choose nothing",
            "a device is in one pool only",
        ];
        let named = said.iter().all(|words| message.contains(words));
        if named { Ok(condition) } else { Err(condition.to_string()) }
    });
    assert_eq!(condition["status"], "False", "{condition}");
    wait_allocatable(&node, "openshift.io/right", "4");
    // What is given stays given when its pool goes.
    apply_device_config(&mut objects, &[("empty.json", json!({"resourceList": []}))]);
    wait_allocatable(&node, "openshift.io/right", "0");
    exec_in_pod("unharmed", "exec 3<>/dev/infiniband/rdma_cm").stdout_or_panic();
    let pod = ferroband_cluster_tests::kubectl_get(&["pod", "unharmed"]);
    assert_eq!(
        (&pod["status"]["phase"], &pod["status"]["containerStatuses"][0]["restartCount"]),
        (&json!("Running"), &json!(0))
    );
}
