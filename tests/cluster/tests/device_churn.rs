//! The daemon and the kubelet are killed alternately while pods with functions start and stop. No function is allocated
//! twice, running pods stay, and the device plugin is registered again within a second.
//!
//! Five rounds here; `cargo xtask test soak` runs fifty.

use ferroband_cluster_tests::hardware::{
    SimulatedVfs, apply_device_config, load_factor, pod_identity, resource_pod, restart_kubelet,
    wait_allocatable,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, for_each_daemon, kubectl, kubectl_get, node_names,
    soak_rounds,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const RESOURCE: &str = "openshift.io/churned";
const FUNCTIONS: usize = 8;
const KEEPERS: usize = 2;
const PODS: usize = 4;

#[test]
fn many_pods_keep_their_functions_while_daemon_and_kubelet_are_killed() {
    let soak = soak_rounds();
    let rounds = if soak > 1 { soak } else { 5 };
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let _functions = SimulatedVfs::create(&node, FUNCTIONS);
    let pool = json!({"resourceList": [{"resourcePrefix": "openshift.io", "resourceName": "churned",
        "selectors": {"devices": ["1018"], "isRdma": true}}]});
    apply_device_config(&mut objects, &[("sriov.json", pool)]);
    wait_allocatable(&node, RESOURCE, &FUNCTIONS.to_string());
    for keeper in 0..KEEPERS {
        objects.apply(&resource_pod(&format!("keeper-{keeper}"), &node, RESOURCE, 1));
    }
    let keepers: Vec<String> = (0..KEEPERS).map(|keeper| format!("keeper-{keeper}")).collect();
    for keeper in &keepers {
        objects.wait_ready(keeper, 90);
    }
    objects.apply(&deployment(&node));
    let before: Vec<Value> = keepers.iter().map(|keeper| pod_identity(keeper)).collect();

    let function = |keeper: &String| {
        exec_in_pod(keeper, "echo $PCIDEVICE_OPENSHIFT_IO_CHURNED").stdout_or_panic().trim().to_owned()
    };
    let held_functions: Vec<String> = keepers.iter().map(function).collect();

    for round in 0..rounds {
        // Not by force, and not with a grace period of 0: the kubelet would allocate a device to the next pod while the
        // container of the previous one is still stopping.
        kubectl(&["delete", "pods", "-l", "a=churned", "--wait=false"]).stdout_or_panic();
        let seconds = if round % 2 == 0 { kill_kubelet(&node) } else { kill_daemon(&node) };
        let limit = load_factor();
        eprintln!("  round {round}: registered after {seconds:.2} s (slowness {limit:.1})");
        assert!(seconds <= limit, "round {round}: registered after {seconds:.2} s");
        eventually(&format!("round {round}: {PODS} pods run"), 120, || {
            let running = running();
            if running.len() == PODS { Ok(()) } else { Err(format!("{running:?}")) }
        });
        let now: Vec<Value> = keepers.iter().map(|keeper| pod_identity(keeper)).collect();
        assert_eq!(now, before, "round {round}: a running pod was changed");
        assert_functions_are_exclusive(round, &node);
        let files = exec_on(&node, "ls /var/run/k8s.cni.cncf.io/devinfo/dp").stdout_or_panic();
        for function in &held_functions {
            let file = format!("openshift.io-churned-{function}-device.json");
            assert!(files.contains(&file), "round {round}: {file} was removed while its pod runs:\n{files}");
        }
    }
}

/// Pods with one function each.
fn deployment(node: &str) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "churned"},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": {"a": "churned"}},
            "template": {
                "metadata": {"labels": {"a": "churned"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1, "nodeSelector": {"kubernetes.io/hostname": node},
                    "containers": [{
                        "name": "c", "image": "busybox:1", "resources": {"limits": {RESOURCE: "1"}},
                    }],
                },
            },
        },
    })
    .to_string()
}

fn running() -> Vec<String> {
    let pods = kubectl_get(&["pods", "-l", "a=churned"]);
    let ready = |pod: &&Value| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["containerStatuses"][0]["ready"] == true
    };
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    pods.iter().filter(ready).filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect()
}

/// Asserts that no two containers on the node have the same function in their environment.
#[track_caller]
fn assert_functions_are_exclusive(round: usize, node: &str) {
    let script = "for p in /proc/[0-9]*; do f=$(tr '\\0' '\\n' < $p/environ 2>/dev/null | \
        sed -n 's/^PCIDEVICE_OPENSHIFT_IO_CHURNED=//p'); [ -n \"$f\" ] && echo $f $(readlink $p/ns/pid); done; true";
    let output = exec_on(node, script).stdout_or_panic();
    let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
    for (function, container) in output.lines().filter_map(|line| line.split_once(' ')) {
        let other = holders.insert(function, container);
        assert!(other.is_none_or(|other| other == container), "round {round}: {function} twice:\n{output}");
    }
    assert!(holders.len() >= KEEPERS, "round {round}: {output}");
}

/// Kills and restarts the kubelet; returns the seconds until the resource was registered again.
fn kill_kubelet(node: &str) -> f64 {
    seconds_until_registered(node, &restart_kubelet(node))
}

/// Kills the daemon, which the kubelet restarts; returns the seconds until the resource was registered again.
fn kill_daemon(node: &str) -> f64 {
    let lines = exec_on(node, "wc -l < /var/log/lab/kubelet.log").stdout_or_panic();
    ferroband_cluster_tests::kill_node_daemon(node);
    seconds_until_registered(node, lines.trim())
}

/// Waits for a registration in the kubelet's log after line `from`. Returns the seconds since both the kubelet's socket
/// and the daemon's process existed.
fn seconds_until_registered(node: &str, from: &str) -> f64 {
    let line = eventually("a registration in the kubelet's log", 120, || {
        let words = format!(
            "tail -n +{} /var/log/lab/kubelet.log | grep 'Got registration request' | grep '{RESOURCE}' | head -n 1",
            from.parse::<usize>().unwrap_or(0) + 1
        );
        match exec_on(node, &words).stdout_or_panic() {
            line if line.trim().is_empty() => Err("none".to_owned()),
            line => Ok(line),
        }
    });
    // `I1115 09:47:04.123456   12345 server.go:…`
    let clock = line.split_whitespace().nth(1).expect("a time");
    let started = for_each_daemon(node, "node", "sed 's/.*) //' $p/stat | cut -d' ' -f20");
    let script = format!(
        "echo $(date -d \"$(date +%Y-%m-%d) {clock}\" +%s.%N) $(stat -c %.9Z /var/lib/kubelet/device-plugins/kubelet.sock) \
         $(date +%s.%N) $(cut -d' ' -f1 /proc/uptime) {}",
        started.lines().last().expect("a daemon")
    );
    let output = exec_on(node, &script).stdout_or_panic();
    let times: Vec<f64> = output.split_whitespace().map(|word| word.parse().expect("seconds")).collect();
    let [registered, kubelet, now, uptime, ticks] = times[..] else { panic!("{output}") };
    // Clock ticks since boot, 100 per second (proc(5)).
    let daemon = now - (uptime - ticks / 100.0);
    (registered - kubelet.max(daemon)).max(0.0)
}
