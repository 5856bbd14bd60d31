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
fn definitions_are_missed_compared_and_trusted() {
    let ours = all_crds();
    let mut served = ours.clone();
    for definition in &mut served {
        let status = json!({"conditions": [{"type": "Established", "status": "True", "reason": "x", "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}], "acceptedNames": {"kind": "x", "plural": "x"}});
        definition.status = serde_json::from_value(status).unwrap();
    }
    assert_eq!(verdicts(&crds::compare(&ours, &served)), [(DoctorVerdict::Good, "definitions")]);

    let mut wrong = served.clone();
    let gone = wrong.remove(0);
    wrong[0].status = None;
    // An older release's, which does not know a field yet.
    let mut schema = serde_json::to_value(&wrong[3]).unwrap();
    schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({});
    wrong[3] = serde_json::from_value(schema).unwrap();
    let findings = crds::compare(&ours, &wrong);
    let seen: Vec<_> = findings.iter().map(|finding| (finding.verdict, finding.seen.as_str())).collect();
    assert_eq!(
        (seen[0], seen[1]),
        ((DoctorVerdict::Wrong, "not there"), (DoctorVerdict::Wrong, "not served"))
    );
    assert!(findings[0].check.ends_with(gone.metadata.name.as_deref().unwrap()));
    assert!(seen.len() == 3 && seen[2].0 == DoctorVerdict::Note && seen[2].1.contains(".spec."), "{seen:?}");
}

fn pod(image: &str, labels: Value, ready: bool) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "x", "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

#[test]
fn a_cluster_without_us_with_a_sick_daemon_and_with_others() {
    let node =
        json!({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let mut seen =
        ClusterObjects { nodes: vec![serde_json::from_value(node).unwrap()], ..ClusterObjects::default() };
    let findings = cluster::check(&StatusReport::from_objects(&seen));
    assert_eq!(
        verdicts(&findings),
        [(DoctorVerdict::Wrong, "daemons"), (DoctorVerdict::Wrong, "node n1"), (DoctorVerdict::Good, "pods")]
    );
    let labels = json!({"app.kubernetes.io/name": "ferroband", "app.kubernetes.io/component": "node"});
    seen.pods = [
        pod("r/ferroband:1", labels, false),
        pod("ghcr.io/k8snetworkplumbingwg/multus-cni:snapshot", json!({}), true),
        pod("multus.example/harmless:1", json!({}), true),
    ]
    .map(|pod| serde_json::from_value(pod).unwrap())
    .to_vec();
    let findings = cluster::check(&StatusReport::from_objects(&seen));
    let found = verdicts(&findings);
    assert!(
        found.contains(&(DoctorVerdict::Wrong, "daemon p"))
            && found.contains(&(DoctorVerdict::Wrong, "cluster daemon")),
        "{found:?}"
    );
    assert!(!found.contains(&(DoctorVerdict::Wrong, "node n1")), "{found:?}");
    let foreign = replaced_systems::check(&seen);
    assert_eq!(foreign.len(), 1, "{foreign:?}");
    assert!(foreign[0].seen.contains("Multus runs: x/p"), "{foreign:?}");
}

#[test]
fn a_pool_is_noted_at_nine_tenths_and_wrong_when_full() {
    for (used, verdict) in [(8, DoctorVerdict::Good), (9, DoctorVerdict::Note), (10, DoctorVerdict::Wrong)] {
        let pool = json!({"metadata": {"name": "v4"}, "spec": {"subnet": "10.0.0.0/24"},
            "status": {"allocatedIPCount": used, "totalIPCount": 10}});
        let seen = ClusterObjects {
            pools: vec![serde_json::from_value(pool).unwrap()],
            ..ClusterObjects::default()
        };
        let findings = cluster::check(&StatusReport::from_objects(&seen));
        assert_eq!(findings.last().map(|finding| finding.verdict), Some(verdict), "{used} of 10");
    }
}

#[test]
fn a_node_is_looked_at_piece_by_piece() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    for below in
        ["etc/cni/net.d", "opt/cni/bin", "var/lib/kubelet/device-plugins", "var/lib/kubelet/pod-resources"]
    {
        fs::create_dir_all(root.path(below)).unwrap();
    }
    let of = |check: &str| node::check(&root).into_iter().find(|finding| finding.check == check).unwrap();
    assert!(of("CNI configuration").seen.contains("there is none"));
    fs::write(root.path("etc/cni/net.d/10-flannel.conflist"), "{}").unwrap();
    assert!(of("CNI configuration").seen.contains("the runtime calls 10-flannel.conflist"));
    fs::write(root.path("etc/cni/net.d/00-ferroband.conflist"), "{}").unwrap();
    assert_eq!(of("CNI configuration").verdict, DoctorVerdict::Good);
    fs::write(root.path("etc/cni/net.d/00-a.conf"), "{}").unwrap();
    assert!(of("CNI configuration").seen.contains("00-a.conf goes before"));

    assert_eq!(of("CNI program").verdict, DoctorVerdict::Wrong);
    fs::write(root.path("opt/cni/bin/ferroband"), "").unwrap();
    assert_eq!(of("CNI program").verdict, DoctorVerdict::Good);
    assert_eq!(of("kubelet device-plugins").verdict, DoctorVerdict::Wrong);
    let _kubelet = UnixListener::bind(root.path("var/lib/kubelet/device-plugins/kubelet.sock")).unwrap();
    assert_eq!(of("kubelet device-plugins").verdict, DoctorVerdict::Good);
    assert_eq!(
        (of("node daemon").verdict, of("hardware").verdict),
        (DoctorVerdict::Wrong, DoctorVerdict::Note)
    );
}

#[test]
fn ports_without_a_link_or_a_subnet_manager_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let port = root.path("sys/class/infiniband/mlx5_0/ports/1");
    fs::create_dir_all(&port).unwrap();
    for (state, manager, verdict) in [
        ("4: ACTIVE", "0x1", DoctorVerdict::Good),
        ("4: ACTIVE", "0x0", DoctorVerdict::Wrong),
        ("2: INIT", "0x0", DoctorVerdict::Wrong),
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
