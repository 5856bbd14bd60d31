use super::{DefaultNetwork, Given, Planned, first, make, selections, settle_uid};
use crate::caches::PodFacts;
use ferroband_api::{annotation::NETWORKS, cncf::NetworkAttachmentDefinition, cncf::NetworkConfig};
use ferroband_attach::plan::{Doer, IpoibStep};
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::{Value, json};
use std::{collections::HashMap, fs, sync::Arc};

fn facts(networks: &str) -> PodFacts {
    PodFacts {
        uid: "u1".into(),
        annotations: [(NETWORKS.to_owned(), networks.to_owned())].into(),
        stateful: false,
    }
}

/// The plan of a pod with this annotation, given these networks.
fn plan(annotation: &str, networks: &[(&str, Value)], runtime_config: Value) -> Result<Planned, Fault> {
    let network = |(name, config): &(&str, Value)| {
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()},
        });
        let object: NetworkAttachmentDefinition = serde_json::from_value(object).unwrap();
        ((*name).to_owned(), Arc::new(object))
    };
    let known: HashMap<_, _> = networks.iter().map(network).collect();
    let facts = facts(annotation);
    let networks = selections(&facts, "default")?;
    let networks: Vec<_> = networks.into_iter().map(|s| (s.clone(), known[&s.name].clone())).collect();
    let bridge = json!({"cniVersion": "0.4.0", "name": "k8s", "plugins": [
        {"type": "bridge"},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
    ]});
    let network = NetworkConfig::parse("k8s", &bridge.to_string(), "k8s").unwrap();
    make(&Given {
        pod: &PodRef { namespace: "default".into(), name: "a".into(), uid: "u1".into() },
        facts: &facts,
        container: "c1",
        ifname: "eth0",
        default: &DefaultNetwork { file: "10-k8s.conflist".into(), network },
        runtime_config: runtime_config.as_object().unwrap(),
        networks: &networks,
    })
}

fn ipoib() -> Value {
    json!({"cniVersion": "0.3.1", "type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}})
}

#[test]
fn the_pod_of_seed_000() {
    let planned = plan("jarvice-ipoib", &[("jarvice-ipoib", ipoib())], json!({})).unwrap();
    let [default, ib] = planned.plan.attachments.as_slice() else { panic!() };
    assert_eq!((default.network.as_str(), default.ifname.as_str(), default.default), ("k8s", "eth0", true));
    assert!(default.steps.iter().all(|step| step.by == Doer::Foreign));
    assert_eq!((ib.network.as_str(), ib.name.as_str()), ("default/jarvice-ipoib", "jarvice-ipoib"));
    assert_eq!((ib.ifname.as_str(), ib.cni_version.as_str(), ib.default), ("net1", "0.3.1", false));
    let child = IpoibStep { parent: "ib0".into(), mtu: None };
    assert_eq!(ib.steps[0].by, Doer::Ipoib { child, addressed: true });
    let [wanted] = planned.wanted.as_slice() else { panic!() };
    assert_eq!((wanted.attachment, wanted.network.as_str()), (1, "default/jarvice-ipoib"));
    let request = &wanted.requests[0];
    assert_eq!(
        (request.interface.as_str(), request.container.as_str(), request.pod.uid.as_str()),
        ("net1", "c1", "u1")
    );
}

#[test]
fn c79_a_pod_without_annotation_gets_the_default_network_alone() {
    let planned = plan("", &[], json!({})).unwrap();
    assert_eq!((planned.plan.attachments.len(), planned.wanted.len()), (1, 0));
}

#[test]
fn c86_names_follow_the_position_and_the_same_network_may_come_twice() {
    let networks = [("a", ipoib()), ("b", ipoib())];
    let planned = plan("a, b@ib1, a", &networks, json!({})).unwrap();
    let names: Vec<_> = planned.plan.attachments.iter().map(|a| a.ifname.as_str()).collect();
    assert_eq!(names, ["eth0", "net1", "ib1", "net3"]);
    let fault = plan("a, b@net1", &networks, json!({})).unwrap_err();
    assert_eq!(fault.code, FaultCode::NameTaken);
    assert_eq!(plan("a@eth0", &networks, json!({})).unwrap_err().code, FaultCode::NameTaken);
}

#[test]
fn what_the_runtime_gives_goes_to_the_default_network_by_capability_and_nowhere_else() {
    let secondary = json!({"type": "macvlan", "capabilities": {"portMappings": true, "mac": true}});
    let given = json!({"portMappings": [{"hostPort": 80}], "dns": {}});
    let planned = plan(r#"[{"name":"a","mac":"02:00:00:00:00:01"}]"#, &[("a", secondary)], given).unwrap();
    let steps = &planned.plan.attachments[0].steps;
    assert_eq!(steps[0].config.get("runtimeConfig"), None);
    assert_eq!(steps[1].config["runtimeConfig"], json!({"portMappings": [{"hostPort": 80}]}));
    assert_eq!(steps[2].config.get("runtimeConfig"), None);
    let config = &planned.plan.attachments[1].steps[0].config;
    assert_eq!(config["runtimeConfig"], json!({"mac": "02:00:00:00:00:01"}));
}

#[test]
fn c90_a_guid_reaches_only_the_plugin_that_can_use_it() {
    let chain = json!({"cniVersion": "1.0.0", "plugins": [
        {"type": "ib-sriov", "capabilities": {"infinibandGUID": true}}, {"type": "tuning"}]});
    let guid = "c2:11:22:33:44:55:66:77";
    let annotation = json!([{"name": "a", "infiniband-guid": guid}]).to_string();
    let planned = plan(&annotation, &[("a", chain)], json!({})).unwrap();
    let [vf, tuning] = planned.plan.attachments[1].steps.as_slice() else { panic!() };
    assert_eq!(vf.config["runtimeConfig"], json!({"infinibandGUID": guid}));
    assert_eq!(tuning.config.get("runtimeConfig"), None);
}

#[test]
fn c89_cni_args_win_over_the_definition_and_keep_the_rest() {
    let config = json!({"type": "x", "args": {"cni": {"a": "1", "b": "1"}, "other": {"k": 1}}});
    let annotation = json!([{"name": "a", "cni-args": {"b": "2", "c": {"d": 3}}}]).to_string();
    let planned = plan(&annotation, &[("a", config)], json!({})).unwrap();
    let args = &planned.plan.attachments[1].steps[0].config["args"];
    assert_eq!(*args, json!({"cni": {"a": "1", "b": "2", "c": {"d": 3}}, "other": {"k": 1}}));
}

#[test]
fn c26_and_c17_what_cannot_work_is_refused_before_anything_is_made() {
    let with = |change: Value| {
        let mut config = ipoib();
        config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        plan("a", &[("a", config)], json!({})).unwrap_err()
    };
    for (change, code) in [
        (json!({"master": ""}), FaultCode::InvalidConfig),
        (json!({"ipam": {"type": "dhcp"}}), FaultCode::InvalidConfig),
        (json!({"ipam": {"type": "whereabouts", "range": "nonsense"}}), FaultCode::InvalidConfig),
        (json!({"cniVersion": "0.5.0"}), FaultCode::IncompatibleVersion),
        (json!({"mtu": "large"}), FaultCode::InvalidConfig),
    ] {
        let fault = with(change.clone());
        assert_eq!(fault.code, code, "{change}: {fault}");
        assert!(fault.what.contains("default/a"), "{change}: {fault}");
    }
    let fault =
        plan(r#"[{"name":"a","default-route":["10.0.0.1"]}]"#, &[("a", ipoib())], json!({})).unwrap_err();
    assert_eq!(fault.code, FaultCode::InvalidAnnotation);
}

#[test]
fn another_default_network_is_refused_and_not_ignored() {
    let mut facts = facts("");
    facts.annotations.insert("v1.multus-cni.io/default-network".into(), "x".into());
    let fault = selections(&facts, "default").unwrap_err();
    assert!(fault.code == FaultCode::InvalidAnnotation && fault.what.contains("default-network"), "{fault}");
}

#[test]
fn another_ipam_or_none_is_not_ours_to_assign() {
    for ipam in [json!({"type": "host-local"}), json!({}), Value::Null] {
        let config = json!({"type": "ipoib", "master": "ib0", "mtu": 2000, "ipam": ipam});
        let planned = plan("a", &[("a", config)], json!({})).unwrap();
        let child = IpoibStep { parent: "ib0".into(), mtu: Some(2000) };
        assert_eq!(planned.plan.attachments[1].steps[0].by, Doer::Ipoib { child, addressed: false });
        assert!(planned.wanted.is_empty());
    }
}

#[test]
fn c99_the_uid_must_be_the_pods_unless_it_is_static() {
    let pod = |uid: &str| PodRef { namespace: "default".into(), name: "a".into(), uid: uid.into() };
    let mut facts = facts("");
    assert_eq!(settle_uid(&pod("u1"), &facts).unwrap().uid, "u1");
    assert_eq!(settle_uid(&pod(""), &facts).unwrap().uid, "u1");
    assert_eq!(settle_uid(&pod("u2"), &facts).unwrap_err().code, FaultCode::PodNotFound);
    facts.annotations.insert("kubernetes.io/config.source".into(), "file".into());
    assert_eq!(settle_uid(&pod("u2"), &facts).unwrap().uid, "u2");
}

#[test]
fn the_default_network_is_the_first_that_is_not_a_meta_plugin() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, content: Value| fs::write(dir.path().join(name), content.to_string()).unwrap();
    assert_eq!(first(dir.path()).unwrap_err().code, FaultCode::NoDefaultNetwork);
    assert_eq!(first(&dir.path().join("none")).unwrap_err().code, FaultCode::NoDefaultNetwork);
    put("00-ferroband.conflist", json!({"name": "k8s", "plugins": [{"type": "ferroband"}]}));
    put("00-multus.conf", json!({"name": "multus-cni-network", "type": "multus-shim"}));
    put("README.txt", json!({}));
    put("20-later.conf", json!({"name": "later", "type": "bridge"}));
    put(
        "10-flannel.conflist",
        json!({"cniVersion": "1.0.0", "name": "cbr0", "plugins": [{"type": "flannel"}]}),
    );
    let found = first(dir.path()).unwrap();
    assert_eq!((found.network.name.as_str(), found.file.ends_with("10-flannel.conflist")), ("cbr0", true));

    fs::create_dir(dir.path().join("cbr0")).unwrap();
    put("cbr0/20-b.conf", json!({"type": "tuning", "keep": [1]}));
    put("cbr0/10-a.conf", json!({"type": "portmap"}));
    let types = |network: &NetworkConfig| -> Vec<Value> {
        network.plugins.iter().map(|p| p["type"].clone()).collect()
    };
    assert_eq!(types(&first(dir.path()).unwrap().network), ["flannel", "portmap", "tuning"]);
    put(
        "10-flannel.conflist",
        json!({"name": "cbr0", "loadOnlyInlinedPlugins": true, "plugins": [{"type": "flannel"}]}),
    );
    assert_eq!(types(&first(dir.path()).unwrap().network), ["flannel"]);
    put("10-flannel.conflist", json!({"name": "cbr0"}));
    assert_eq!(types(&first(dir.path()).unwrap().network), ["portmap", "tuning"]);

    // Half written: the next file is another network, so this is a fault and not a choice.
    fs::write(dir.path().join("10-flannel.conflist"), "{").unwrap();
    let fault = first(dir.path()).unwrap_err();
    assert!(fault.what.contains("10-flannel.conflist"), "{fault}");
}

#[test]
fn a_users_own_runtime_config_stays_until_there_is_something_to_put() {
    let config =
        json!({"type": "x", "capabilities": {"mac": true}, "runtimeConfig": {"ips": ["10.0.0.1/24"]}});
    let of = |annotation: &str| {
        let planned = plan(annotation, &[("a", config.clone())], json!({})).unwrap();
        planned.plan.attachments[1].steps[0].config["runtimeConfig"].clone()
    };
    assert_eq!(of("a"), json!({"ips": ["10.0.0.1/24"]}));
    let mac = "02:00:00:00:00:09";
    assert_eq!(of(&json!([{"name": "a", "mac": mac}]).to_string()), json!({"mac": mac}));
}
