//! In a large idle cluster the leader writes almost nothing and uses little memory.
//!
//! Thirty nodes here; a thousand nodes and ten thousand pods in `cargo xtask test soak`. They are API objects only.

use ferroband_cluster_tests::inspect::{audit_events, audit_log_length};
use ferroband_cluster_tests::{
    TestObjects, eventually, for_each_daemon, kubectl, kubectl_get, kubectl_with, soak_rounds,
};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// Objects created per request.
const BATCH: usize = 250;

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Node, state and pod objects without machines, deleted on drop.
struct DummyNodes {
    nodes: usize,
}

impl DummyNodes {
    fn name(index: usize) -> String {
        format!("crowd-{index:04}")
    }

    /// Nodes without an OS label: no DaemonSet matches them, but policies can.
    fn new(nodes: usize, pods: usize) -> Self {
        let created = Self { nodes };
        let node = |index| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": Self::name(index), "labels": {"crowd": "true"}},
                "spec": {"unschedulable": true}})
        };
        let state = |index| {
            json!({"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState",
                "metadata": {"name": Self::name(index), "namespace": "ferroband-system", "labels": {"crowd": "true"}}, "spec": {}})
        };
        let vf = |vf: usize| {
            json!({"pciAddress": format!("0000:86:{:02x}.{}", (vf + 2) / 8, (vf + 2) % 8), "vfID": vf, "driver": "mlx5_core",
                "vendor": "15b3", "deviceID": "1018", "guid": "02:00:00:00:00:00:00:01"})
        };
        let status = |index| {
            let mut state = state(index);
            state["status"] = json!({"syncStatus": "Succeeded", "interfaces": [{
                "pciAddress": "0000:86:00.0", "name": "ibs5f0", "vendor": "15b3", "deviceID": "1017", "linkType": "IB",
                "totalvfs": 16, "numVfs": 16, "Vfs": (0..16).map(vf).collect::<Vec<_>>(),
            }]});
            state
        };
        for first in (0..nodes).step_by(BATCH) {
            let batch = first..(first + BATCH).min(nodes);
            let objects: Vec<_> = batch.clone().map(node).chain(batch.clone().map(state)).collect();
            kubectl_with(&["create", "-f", "-"], &list(&objects)).stdout_or_panic();
            let statuses: Vec<_> = batch.map(status).collect();
            kubectl_with(&["apply", "--server-side", "--subresource=status", "-f", "-"], &list(&statuses))
                .stdout_or_panic();
        }
        let pod = |index: usize| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("crowd-{index:05}"), "labels": {"crowd": "true"}},
                "spec": {"nodeName": Self::name(index % nodes), "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "busybox:1"}]}})
        };
        for first in (0..pods).step_by(BATCH) {
            let batch: Vec<_> = (first..(first + BATCH).min(pods)).map(pod).collect();
            kubectl_with(&["create", "-f", "-"], &list(&batch)).stdout_or_panic();
        }
        created
    }
}

impl Drop for DummyNodes {
    fn drop(&mut self) {
        let label = ["-l", "crowd=true", "--wait=false"];
        let states = ["-n", "ferroband-system", "delete", "sriovnetworknodestates"];
        for delete in [&["delete", "pods", "--force", "--grace-period=0"][..], &["delete", "nodes"], &states]
        {
            let gone = kubectl(&[delete, &label].concat());
            if !gone.ok {
                eprintln!("cannot delete: {}", gone.err);
            }
        }
    }
}

/// Resident memory of the leader in MB.
fn leader_memory() -> usize {
    let lease = kubectl_get(&["-n", "ferroband-system", "lease", "ferroband-cluster"]);
    let pod = kubectl_get(&[
        "-n",
        "ferroband-system",
        "pod",
        lease["spec"]["holderIdentity"].as_str().expect("a leader"),
    ]);
    let node = pod["spec"]["nodeName"].as_str().expect("a node");
    let output = for_each_daemon(node, "cluster", "grep VmRSS $p/status");
    let sizes = output.split_whitespace().filter_map(|word| word.parse::<usize>().ok());
    sizes.max().expect("a process") / 1024
}

#[test]
fn many_idle_nodes_and_pods_cause_few_writes() {
    let rounds = soak_rounds();
    let (nodes, pods, rest) = if rounds > 1 { (1000, 10_000, 60) } else { (30, 0, 10) };
    let dummies = DummyNodes::new(nodes, pods);
    let mut objects = TestObjects::default();
    let selector = json!({"crowd": "true"});
    objects.apply(
        &json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": "crowd", "namespace": "kube-system"},
            "spec": {"resourceName": "crowd", "nodeSelector": selector, "numVfs": 16, "nicSelector": {"vendor": "15b3"}},
        })
        .to_string(),
    );
    eventually("every node has its state", 300, || {
        let output = kubectl(&[
            "-n",
            "ferroband-system",
            "get",
            "sriovnetworknodestates",
            "-l",
            "crowd=true",
            "-o",
            "jsonpath={range .items[*]}{.spec.interfaces[0].vfGroups[0].resourceName}{\"\\n\"}{end}",
        ]);
        let ready = output.out.lines().filter(|line| *line == "crowd").count();
        if ready == dummies.nodes { Ok(()) } else { Err(format!("{ready} of {}", dummies.nodes)) }
    });
    sleep(Duration::from_secs(5));
    let mark = audit_log_length();
    sleep(Duration::from_secs(rest));
    let writes = audit_events(mark).into_iter().filter(|entry| {
        let by_leader =
            entry["user"]["username"].as_str().is_some_and(|user| user.ends_with(":ferroband-cluster"));
        let write = entry["verb"]
            .as_str()
            .is_some_and(|verb| ["create", "update", "patch", "delete"].contains(&verb));
        by_leader && write && entry["stage"] == "ResponseComplete"
    });
    let (writes, memory) = (writes.count(), leader_memory());
    println!("{nodes} nodes, {pods} pods: {writes} writes in {rest} s, {memory} MB");
    assert!(u64::try_from(writes).expect("few") < rest, "{writes} writes in {rest} s");
    assert!(memory < 200, "{memory} MB");
}
