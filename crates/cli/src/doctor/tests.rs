use super::*;
use crate::status::ClusterObjects;
use ferroband_api::all_crds;
use ferroband_node::discover::Inventory;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::net::UnixListener;

fn verdicts(findings: &[DoctorFinding]) -> Vec<(DoctorVerdict, &str)> {
    findings.iter().map(|finding| (finding.verdict, finding.check.as_str())).collect()
}

#[test]
fn missing_unestablished_and_outdated_crds_are_reported() {
    let expected = all_crds();
    let mut installed = expected.clone();
    for definition in &mut installed {
        let status = json!({"conditions": [{"type": "Established", "status": "True", "reason": "x", "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}], "acceptedNames": {"kind": "x", "plural": "x"}});
        definition.status = serde_json::from_value(status).unwrap();
    }
    assert_eq!(verdicts(&crds::compare(&expected, &installed)), [(DoctorVerdict::Good, "CRDs")]);

    let mut outdated = installed.clone();
    let missing = outdated.remove(0);
    outdated[0].status = None;
    // This CRD is from an older release: its schema lacks the fields of `spec`. That must be reported as a
    // note.
    let mut schema = serde_json::to_value(&outdated[3]).unwrap();
    schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({});
    outdated[3] = serde_json::from_value(schema).unwrap();
    let findings = crds::compare(&expected, &outdated);
    let results: Vec<_> =
        findings.iter().map(|finding| (finding.verdict, finding.observed.as_str())).collect();
    assert_eq!(
        (results[0], results[1]),
        ((DoctorVerdict::Problem, "missing"), (DoctorVerdict::Problem, "not established"))
    );
    assert!(findings[0].check.ends_with(missing.metadata.name.as_deref().unwrap()));
    assert!(
        results.len() == 3 && results[2].0 == DoctorVerdict::Note && results[2].1.contains(".spec."),
        "{results:?}"
    );
}

fn pod(image: &str, labels: Value, ready: bool) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "x", "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

#[test]
fn missing_daemons_unready_daemons_and_replaced_components_are_reported() {
    let node =
        json!({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let mut objects =
        ClusterObjects { nodes: vec![serde_json::from_value(node).unwrap()], ..ClusterObjects::default() };
    let findings = cluster::check(&StatusReport::from_objects(&objects));
    assert_eq!(
        verdicts(&findings),
        [
            (DoctorVerdict::Problem, "daemons"),
            (DoctorVerdict::Problem, "node n1"),
            (DoctorVerdict::Good, "pods")
        ]
    );
    let labels = json!({"app.kubernetes.io/name": "ferroband", "app.kubernetes.io/component": "node"});
    objects.pods = [
        pod("r/ferroband:1", labels, false),
        pod("ghcr.io/k8snetworkplumbingwg/multus-cni:snapshot", json!({}), true),
        pod("multus.example/harmless:1", json!({}), true),
    ]
    .map(|pod| serde_json::from_value(pod).unwrap())
    .to_vec();
    let findings = cluster::check(&StatusReport::from_objects(&objects));
    let found = verdicts(&findings);
    assert!(
        found.contains(&(DoctorVerdict::Problem, "daemon p"))
            && found.contains(&(DoctorVerdict::Problem, "cluster daemon")),
        "{found:?}"
    );
    assert!(!found.contains(&(DoctorVerdict::Problem, "node n1")), "{found:?}");
    let foreign = replaced_systems::check(&objects);
    assert_eq!(foreign.len(), 1, "{foreign:?}");
    assert!(foreign[0].observed.contains("Multus is running: x/p"), "{foreign:?}");
}

#[test]
fn failed_sandbox_of_the_kubelet_is_a_problem_with_a_remedy() {
    let mut waiting = pod("x", json!({}), false);
    waiting["metadata"]["uid"] = json!("u");
    let event = json!({"metadata": {"name": "e", "namespace": "x"}, "involvedObject": {"kind": "Pod", "uid": "u"},
        "source": {"component": "kubelet"}, "reason": "FailedCreatePodSandBox", "lastTimestamp": "2026-01-01T00:00:00Z",
        "message": "Failed to create pod sandbox: … failed (add): Ferroband node daemon: not running; wait [DaemonAway]"});
    let objects = ClusterObjects {
        pods: vec![serde_json::from_value(waiting).unwrap()],
        events: vec![serde_json::from_value(event).unwrap()],
        ..ClusterObjects::default()
    };
    let findings = check_objects(&objects);
    let found = findings.iter().find(|finding| finding.check == "pod x/p").expect("a finding about the pod");
    assert_eq!(
        (found.verdict, found.observed.as_str()),
        (DoctorVerdict::Problem, "Ferroband node daemon: not running; wait [DaemonAway]")
    );
    assert_eq!(found.remedy.as_deref(), Some("run `ferroband explain DaemonAway`"));
}

#[test]
fn every_check_of_the_cluster_is_run() {
    let conditions = |kind: &str| {
        json!([{"type": kind, "status": "False", "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    };
    let node = json!({"metadata": {"name": "n1"}, "status": {"capacity": {"jarvice.com/rdma": "2"},
        "allocatable": {"jarvice.com/rdma": "1"}}});
    let policy = json!({"metadata": {"name": "p", "namespace": "x"}, "status": {"conditions": conditions("Matched")},
        "spec": {"resourceName": "ib", "nodeSelector": {}, "nicSelector": {}, "numVfs": 1}});
    let fabric = json!({"metadata": {"name": "default"}, "spec": {},
        "status": {"manager": "ufm", "conditions": conditions("Reachable")}});
    let partition = |name: &str| json!({"metadata": {"name": name}, "spec": {"pkey": "5", "namespaces": []}});
    let objects = ClusterObjects {
        nodes: vec![serde_json::from_value(node).unwrap()],
        policies: vec![serde_json::from_value(policy).unwrap()],
        fabrics: vec![serde_json::from_value(fabric).unwrap()],
        partitions: ["a", "b"].map(|name| serde_json::from_value(partition(name)).unwrap()).to_vec(),
        ..ClusterObjects::default()
    };
    let findings = check_objects(&objects);
    let found = verdicts(&findings);
    for check in ["devices of node n1", "policy x/p", "subnet manager ufm", "partition 0x0005"] {
        assert!(found.contains(&(DoctorVerdict::Problem, check)), "{check}: {found:?}");
    }
}

#[test]
fn nearly_full_pool_is_a_note_and_full_pool_a_problem() {
    for (used, verdict) in [(8, DoctorVerdict::Good), (9, DoctorVerdict::Note), (10, DoctorVerdict::Problem)]
    {
        let pool = json!({"metadata": {"name": "v4"}, "spec": {"subnet": "10.0.0.0/24"},
            "status": {"allocatedIPCount": 0, "totalIPCount": 10}});
        let entry = json!({"pod": "a/b", "uid": "u", "interface": "net1", "container": "c", "node": "n", "pool": "v4"});
        let entries: serde_json::Map<String, serde_json::Value> =
            (0..used).map(|offset: i32| (offset.to_string(), entry.clone())).collect();
        let block = json!({"metadata": {"name": "b"}, "spec": {"space": "default", "first": "10.0.0.0",
            "entries": entries}});
        let objects = ClusterObjects {
            blocks: vec![serde_json::from_value(block).unwrap()],
            pools: vec![serde_json::from_value(pool).unwrap()],
            ..ClusterObjects::default()
        };
        let findings = cluster::check(&StatusReport::from_objects(&objects));
        assert_eq!(findings.last().map(|finding| finding.verdict), Some(verdict), "{used} of 10");
    }
}

#[test]
fn each_part_of_a_node_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    for below in
        ["etc/cni/net.d", "opt/cni/bin", "var/lib/kubelet/device-plugins", "var/lib/kubelet/pod-resources"]
    {
        fs::create_dir_all(root.path(below)).unwrap();
    }
    let of = |check: &str| node::check(&root).into_iter().find(|finding| finding.check == check).unwrap();
    assert!(of("CNI configuration").observed.contains("no configuration"));
    fs::write(root.path("etc/cni/net.d/10-flannel.conflist"), "{}").unwrap();
    assert!(of("CNI configuration").observed.contains("the runtime uses 10-flannel.conflist"));
    fs::write(root.path("etc/cni/net.d/00-ferroband.conflist.cilium_bak"), "{}").unwrap();
    assert!(of("CNI configuration").observed.contains("Cilium renamed 00-ferroband.conflist"));
    assert!(of("CNI configuration").remedy.unwrap().contains("cni.exclusive=false"));
    fs::write(root.path("etc/cni/net.d/00-ferroband.conflist"), "{}").unwrap();
    assert_eq!(of("CNI configuration").verdict, DoctorVerdict::Good);
    fs::write(root.path("etc/cni/net.d/00-a.conf"), "{}").unwrap();
    assert!(of("CNI configuration").observed.contains("00-a.conf sorts before"));

    assert_eq!(of("CNI program").verdict, DoctorVerdict::Problem);
    fs::write(root.path("opt/cni/bin/ferroband"), "").unwrap();
    assert_eq!(of("CNI program").verdict, DoctorVerdict::Good);
    assert_eq!(of("kubelet device-plugins").verdict, DoctorVerdict::Problem);
    let _kubelet = UnixListener::bind(root.path("var/lib/kubelet/device-plugins/kubelet.sock")).unwrap();
    assert_eq!(of("kubelet device-plugins").verdict, DoctorVerdict::Good);
    assert_eq!(
        (of("node daemon").verdict, of("hardware").verdict),
        (DoctorVerdict::Problem, DoctorVerdict::Note)
    );
}

#[test]
fn ports_without_link_or_subnet_manager_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let port = root.path("sys/class/infiniband/mlx5_0/ports/1");
    fs::create_dir_all(&port).unwrap();
    for (state, manager, verdict) in [
        ("4: ACTIVE", "0x1", DoctorVerdict::Good),
        ("4: ACTIVE", "0x0", DoctorVerdict::Problem),
        ("2: INIT", "0x0", DoctorVerdict::Problem),
    ] {
        for (file, text) in
            [("state", state), ("sm_lid", manager), ("link_layer", "InfiniBand"), ("lid", "0x3")]
        {
            fs::write(port.join(file), format!("{text}\n")).unwrap();
        }
        let findings = node::check_inventory(&Inventory::read(&root, false).unwrap());
        let last = findings.last().unwrap();
        assert_eq!((last.verdict, last.check.as_str()), (verdict, "port mlx5_0/1"), "{state}: {findings:?}");
    }
}
