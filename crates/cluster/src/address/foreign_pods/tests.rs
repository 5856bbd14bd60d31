use super::*;
use crate::address::foreign_records::RecordSlot;
use ferroband_address::IpSpace;
use serde_json::json;

fn record(uid: Option<&str>) -> ForeignRecord {
    ForeignRecord {
        slot: RecordSlot { space: IpSpace::default_space(), address: [10, 0, 0, 5].into() },
        pod: "ns/db-0".into(),
        uid: uid.map(str::to_owned),
        container: uid.is_none().then(|| "c".to_owned()),
        pool: "10.0.0.0/24".into(),
        ..ForeignRecord::default()
    }
}

fn pod(status: &Value, owner: &str) -> Pod {
    let object = json!({
        "metadata": {
            "name": "db-0", "namespace": "ns", "uid": "u", "annotations": {NETWORK_STATUS: status.to_string()},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "db", "uid": "o", "controller": true}],
        },
        "spec": {"nodeName": "n", "containers": []}, "status": {"podIPs": [{"ip": "10.1.0.1"}]},
    });
    serde_json::from_value(object).unwrap()
}

// Case: ipam A28
#[test]
fn a_record_is_imported_while_its_pod_reports_the_address() {
    let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
    let decide = |record: &ForeignRecord, status: &Value| {
        decide_import(record, Some(&pod(status, "ReplicaSet")), false)
    };
    let ImportDecision::Import(imported) = decide(&record(None), &has) else { panic!() };
    assert_eq!(
        (imported.interface.as_str(), imported.container.as_str(), imported.node.as_str()),
        ("net1", "c", "n")
    );
    assert_eq!((imported.uid.as_str(), imported.sticky), ("u", false));
    let other = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.6"]}]);
    assert_eq!(decide(&record(None), &other), ImportDecision::Undecided);
    assert_eq!(decide_import(&record(None), None, true), ImportDecision::Stale);
    let mut default = record(Some("u"));
    default.slot.address = [10, 1, 0, 1].into();
    let ImportDecision::Import(imported) = decide(&default, &other) else { panic!() };
    assert_eq!((imported.interface.as_str(), imported.container.as_str()), ("eth0", "before-u"));
}

// Case: ipam A28
#[test]
fn statefulset_records_are_kept_for_the_next_pod_of_the_same_name() {
    let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
    let pod = pod(&has, "StatefulSet");
    let decision = decide_import(&record(Some("u")), Some(&pod), true);
    assert!(matches!(decision, ImportDecision::Import(imported) if imported.sticky));
    let with_interface = ForeignRecord { interface: Some("net1".into()), ..record(Some("old")) };
    let decision = decide_import(&with_interface, Some(&pod), true);
    assert!(matches!(decision, ImportDecision::Import(imported) if imported.is_reserved()));
    assert_eq!(decide_import(&with_interface, Some(&pod), false), ImportDecision::Stale);
    assert_eq!(decide_import(&record(Some("old")), None, true), ImportDecision::Stale);
}

// Case: ipam W41
#[test]
fn a_new_pod_gets_the_address_that_whereabouts_recorded_for_its_name() {
    let starting = |pod_ips: Value, uid: Option<&str>| {
        let object = json!({"metadata": {"name": "db-0", "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Pending", "podIPs": pod_ips}});
        let pod: Pod = serde_json::from_value(object).unwrap();
        decide_import(&ForeignRecord { interface: Some("net1".into()), ..record(uid) }, Some(&pod), false)
    };
    let ImportDecision::Import(entry) = starting(json!([]), None) else { panic!() };
    assert_eq!((entry.uid.as_str(), entry.node.as_str(), entry.interface.as_str()), ("u", "n", "net1"));
    assert_eq!(starting(json!([{"ip": "10.1.0.1"}]), None), ImportDecision::Undecided, "it has a sandbox");
    assert_eq!(
        starting(json!([]), Some("u")),
        ImportDecision::Undecided,
        "Spiderpool records the pod itself"
    );
}
