//! CLI commands on a real cluster: status, doctor, verify.

use ferroband_cluster_tests::{
    TestObjects, current_lab, eventually, exec_in_pod, ferroband, kubectl, kubectl_get, network_definition,
    node_names,
};
use serde_json::{Value, json};
use std::process::Stdio;

const NETWORK: &str = "people-ib";

fn network() -> Value {
    let config = json!({
        "cniVersion": "1.0.0", "type": "ipoib", "master": "ib0",
        "ipam": {"type": "whereabouts", "range": "192.168.77.0/28"},
    });
    network_definition(NETWORK, &config)
}

fn pod(name: &str, network: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": network}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "ferroband.lab/tools:1", "command": ["sleep", "infinity"]}],
        },
    })
}

/// The pod's rows in `ferroband status -o json`.
fn rows(name: &str) -> Vec<Value> {
    let report: Value =
        serde_json::from_str(&ferroband(&["status", "-o", "json"]).stdout_or_panic()).expect("JSON");
    let all = report["pods"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|row| row["pod"] == name).collect()
}

fn verify_pods() -> usize {
    kubectl_get(&["pods", "-l", "ferroband.io/verify"])["items"].as_array().map_or(0, Vec::len)
}

#[test]
fn status_shows_attached_and_waiting_pods() {
    let mut objects = TestObjects::default();
    objects.apply(&network().to_string());
    objects.apply(&pod("people-a", NETWORK).to_string());
    objects.apply(&pod("people-b", "people-absent").to_string());
    objects.wait_ready("people-a", 90);
    let row = rows("people-a").remove(0);
    assert_eq!((&row["interface"], &row["state"]), (&json!("net1"), &json!("Ready")), "{row}");
    let address = row["ips"][0].as_str().expect("an address").to_owned();
    let shown = exec_in_pod("people-a", "ip -o -4 address show dev net1").stdout_or_panic();
    assert!(shown.contains(&format!("inet {address}/28")), "{shown}");
    eventually("the error code of the waiting pod", 60, || match rows("people-b").first() {
        Some(row) if row["state"] == "NoNetworkFound" && row["network"] == "default/people-absent" => Ok(()),
        row => Err(format!("{row:?}")),
    });
    let table = ferroband(&["status"]).stdout_or_panic();
    assert!(
        table.contains("default/people-a")
            && table.contains("! default/people-b: network default/people-absent"),
        "{table}"
    );
    let unhealthy = ferroband(&["doctor", "cluster"]);
    assert!(!unhealthy.ok && unhealthy.out.contains("ferroband explain NoNetworkFound"), "{unhealthy:?}");
}

#[test]
fn failed_sandbox_and_misspelt_resource_are_shown_with_their_cause() {
    let mut objects = TestObjects::default();
    // `ferroband-cni` finds that the plugin is missing, so only the kubelet's event has the error.
    let config = json!({"cniVersion": "1.0.0", "name": "people-missing", "type": "people-missing"});
    objects.apply(&network_definition("people-missing", &config).to_string());
    objects.apply(&pod("people-c", "people-missing").to_string());
    let mut misspelt = pod("people-d", NETWORK);
    misspelt["spec"]["containers"][0]["resources"] = json!({"limits": {"jarvice.com/rdmaa": 1}});
    objects.apply(&misspelt.to_string());
    eventually("the code of the failed sandbox", 60, || match rows("people-c").first() {
        Some(row) if row["state"] == "NoPlugin" => Ok(()),
        row => Err(format!("{row:?}")),
    });
    eventually("the resource that no node offers", 60, || match rows("people-d").first() {
        Some(row)
            if row["message"]
                .as_str()
                .unwrap_or_default()
                .starts_with("no node offers jarvice.com/rdmaa") =>
        {
            Ok(())
        }
        row => Err(format!("{row:?}")),
    });
    let doctor = ferroband(&["doctor", "cluster"]);
    assert!(!doctor.ok && doctor.out.contains("ferroband explain NoPlugin"), "{doctor:?}");
    assert!(doctor.out.contains("no node offers jarvice.com/rdmaa"), "{doctor:?}");
}

#[test]
fn doctor_reports_a_healthy_cluster_and_node() {
    eventually("a healthy cluster", 60, || match ferroband(&["doctor", "cluster"]) {
        outcome if outcome.ok => Ok(()),
        outcome => Err(format!("{outcome:?}")),
    });
    let daemon = kubectl(&[
        "-n",
        "ferroband-system",
        "exec",
        "daemonset/ferroband-node",
        "--",
        "ferroband",
        "doctor",
        "node",
    ]);
    let output = daemon.stdout_or_panic();
    assert!(
        output.contains("00-ferroband.conflist is the first") && output.contains("subnet manager at LID"),
        "{output}"
    );
}

#[test]
fn verify_tests_a_network_between_two_nodes_and_cleans_up() {
    let mut objects = TestObjects::default();
    objects.apply(&network().to_string());
    let (one, other) = (node_names()[0].clone(), node_names()[1].clone());
    let output = ferroband(&["verify", NETWORK, "--nodes", &format!("{one},{other}")]).stdout_or_panic();
    assert!(output.contains(&format!("ok: {other} reaches {one} over default/{NETWORK}")), "{output}");
    assert!(output.contains("3 packets transmitted, 3 packets received"), "{output}");
    assert_eq!(verify_pods(), 0);
    let absent = ferroband(&["verify", "people-absent", "--timeout", "20"]);
    assert!(!absent.ok && absent.err.contains("[NoNetworkFound]"), "{absent:?}");
    assert_eq!(verify_pods(), 0);
}

#[test]
fn verify_cleans_up_when_interrupted() {
    // The network never appears, so verify waits.
    let mut running = current_lab().ferroband().expect("the CLI");
    running.args(["verify", "people-absent", "--timeout", "120"]);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the CLI starts");
    eventually("the first pod", 30, || if verify_pods() == 1 { Ok(()) } else { Err("none".to_owned()) });
    let pid = running.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    assert!(!running.wait().expect("the CLI ends").success());
    assert_eq!(verify_pods(), 0);
}
