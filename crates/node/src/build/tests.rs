mod allocated_devices;
mod letter_case;

use super::{AttachmentIpRequests, PlanOutput, build_plan};
use crate::{
    caches::PodFacts,
    kubelet::PodDevices,
    resolve::{
        DefaultNetwork, DefaultNetworkChoice, NetworkAccessPolicy, RequestedNetworks, ResolvedAdd,
        ResolvedInterface, ResolvedNetwork, ResolvedPod, find_default_network, requested_networks,
        resolve_uid,
    },
};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_api::cncf::{NetworkAttachmentDefinition, NetworkConfig};
use ferroband_attach::plan::{Attachment, DefaultRoute, StepKind};
use ferroband_config::IpoibConfig;
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::{Value, json};
use std::{collections::HashMap, fs, sync::Arc};

mod requested_addresses;

fn facts(networks: &str) -> PodFacts {
    PodFacts {
        uid: "u1".into(),
        annotations: [(NETWORKS.to_owned(), networks.to_owned())].into(),
        ..PodFacts::default()
    }
}

fn resolved_pod(facts: &PodFacts) -> ResolvedPod {
    ResolvedPod {
        pod: PodRef { namespace: "default".into(), name: "a".into(), uid: "u1".into() },
        facts: Arc::new(facts.clone()),
        container: "c1".into(),
        pools: None,
        flat_file: serde_json::Map::new(),
    }
}

/// Plans a pod with the device 0000:3b:00.2 of a resource that its networks do not use.
fn plan(annotation: &str, networks: &[(&str, Value)], runtime_config: Value) -> Result<PlanOutput, Fault> {
    plan_with(&facts(annotation), networks, runtime_config, &unrelated_device())
}

fn unrelated_device() -> PodDevices {
    let mut devices = PodDevices::default();
    devices.add("x/unrelated", ["0000:3b:00.2".to_owned()]);
    devices
}

/// Plans a pod with these networks and devices. A network `<name>:<resource>` uses devices of that resource. A
/// configuration that is a JSON string is the text of the definition.
fn plan_with(
    facts: &PodFacts,
    networks: &[(&str, Value)],
    runtime_config: Value,
    devices: &PodDevices,
) -> Result<PlanOutput, Fault> {
    let network = |(name, config): &(&str, Value)| {
        let (name, resource) = name.split_once(':').unwrap_or((name, ""));
        let text = config.as_str().map_or_else(|| config.to_string(), str::to_owned);
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource}},
            "spec": {"config": text},
        });
        let object: NetworkAttachmentDefinition = serde_json::from_value(object).unwrap();
        (name.to_owned(), object)
    };
    let known: HashMap<_, _> = networks.iter().map(network).collect();
    let RequestedNetworks { default, cluster_wide: of_everybody, networks } =
        requested_networks(facts, "default", &NetworkAccessPolicy::default())?;
    assert_eq!(of_everybody, []);
    let choose = |s: NetworkSelection| ResolvedNetwork::from_definition(s.clone(), &known[&s.name], &[]);
    let networks: Vec<_> = networks.into_iter().map(choose).collect::<Result<_, _>>()?;
    let bridge = json!({"cniVersion": "0.4.0", "name": "k8s", "plugins": [
        {"type": "bridge"},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
    ]});
    let network = NetworkConfig::parse("k8s", &bridge.to_string(), "k8s").unwrap();
    let default = match default {
        Some(selection) => DefaultNetworkChoice::Resolved(Box::new(choose(selection)?)),
        None => DefaultNetworkChoice::Wrapped(DefaultNetwork { file: "10-k8s.conflist".into(), network }),
    };
    build_plan(&ResolvedAdd {
        pod: resolved_pod(facts),
        ifname: "eth0".into(),
        default,
        runtime_config: runtime_config.as_object().unwrap().clone(),
        networks,
        devices: devices.clone(),
    })
}

fn ipoib() -> Value {
    json!({"cniVersion": "0.3.1", "type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}})
}

#[test]
fn pod_with_default_and_ipoib_network_is_planned() {
    let planned = plan("jarvice-ipoib", &[("jarvice-ipoib", ipoib())], json!({})).unwrap();
    let [default, ib] = planned.plan.attachments.as_slice() else { panic!() };
    assert_eq!((default.network.as_str(), default.ifname.as_str(), default.default), ("k8s", "eth0", true));
    assert!(default.steps.iter().all(|step| step.kind == StepKind::Foreign));
    assert_eq!((ib.network.as_str(), ib.name.as_str()), ("default/jarvice-ipoib", "jarvice-ipoib"));
    assert_eq!((ib.ifname.as_str(), ib.cni_version.as_str(), ib.default), ("net1", "0.3.1", false));
    let child = IpoibConfig { parent: "ib0".into(), ..IpoibConfig::default() };
    assert_eq!(ib.steps[0].kind, StepKind::Ipoib { child, daemon_ipam: true });
    let [ip_request] = planned.ip_requests.as_slice() else { panic!() };
    assert_eq!((ip_request.attachment, ip_request.network.as_str()), (1, "default/jarvice-ipoib"));
    let request = &ip_request.requests[0];
    assert_eq!(
        (request.interface.as_str(), request.container.as_str(), request.pod.uid.as_str()),
        ("net1", "c1", "u1")
    );
}

// Case: cni 79
#[test]
fn pod_without_annotation_gets_only_the_default_network() {
    let planned = plan("", &[], json!({})).unwrap();
    assert_eq!((planned.plan.attachments.len(), planned.ip_requests.len()), (1, 0));
}

#[test]
fn meta_plugins_are_no_plugins_of_a_network() {
    for config in [
        json!({"type": "multus"}),
        json!({"type": "ferroband"}),
        json!({"Type": "multus-shim"}),
        json!({"type": "ferroband-cni"}),
        json!({"plugins": [{"type": "macvlan"}, {"type": "multus"}]}),
        json!({"type": "macvlan", "ipam": {"type": "multus"}}),
    ] {
        let fault = plan("a", &[("a", config.clone())], json!({})).unwrap_err();
        assert_eq!(
            (fault.code, fault.what.as_str()),
            (FaultCode::InvalidConfig, "network default/a"),
            "{config}"
        );
        assert!(fault.cause.contains("meta plugin"), "{fault}");
        let mut with_default = facts("");
        with_default.annotations.insert(DEFAULT_NETWORK.to_owned(), "default/a".to_owned());
        let planned = plan_with(&with_default, &[("a", config)], json!({}), &PodDevices::default());
        assert!(planned.unwrap_err().cause.contains("meta plugin"));
    }
}

#[test]
fn a_pod_may_not_request_more_networks_than_allowed() {
    let networks = [("a", ipoib())];
    let planned = plan(&vec!["a"; 64].join(","), &networks, json!({})).unwrap();
    assert_eq!(planned.plan.attachments.len(), 65);
    let fault = plan(&vec!["a"; 65].join(","), &networks, json!({})).unwrap_err();
    assert!(fault.cause.contains("65 networks") && fault.cause.contains("maxNetworksPerPod"), "{fault}");
}

// Case: cni 86
#[test]
fn interfaces_are_named_by_position_and_a_network_may_occur_twice() {
    let networks = [("a", ipoib()), ("b", ipoib())];
    let planned = plan("a, b@ib1, a", &networks, json!({})).unwrap();
    let names: Vec<_> = planned.plan.attachments.iter().map(|a| a.ifname.as_str()).collect();
    assert_eq!(names, ["eth0", "net1", "ib1", "net3"]);
    let fault = plan("a, b@net1", &networks, json!({})).unwrap_err();
    assert_eq!(fault.code, FaultCode::NameTaken);
    assert_eq!(plan("a@eth0", &networks, json!({})).unwrap_err().code, FaultCode::NameTaken);
}

#[test]
fn runtime_config_goes_only_to_capable_plugins_of_the_default_network() {
    let secondary = json!({"type": "macvlan", "capabilities": {"portMappings": true, "mac": true}});
    let input = json!({"portMappings": [{"hostPort": 80}], "dns": {}});
    let planned = plan(r#"[{"name":"a","mac":"02:00:00:00:00:01"}]"#, &[("a", secondary)], input).unwrap();
    let steps = &planned.plan.attachments[0].steps;
    assert_eq!(steps[0].config.get("runtimeConfig"), None);
    assert_eq!(steps[1].config["runtimeConfig"], json!({"portMappings": [{"hostPort": 80}]}));
    assert_eq!(steps[2].config.get("runtimeConfig"), None);
    let config = &planned.plan.attachments[1].steps[0].config;
    assert_eq!(config["runtimeConfig"], json!({"mac": "02:00:00:00:00:01"}));
}

// Case: cni 90
#[test]
fn guid_goes_only_to_plugins_with_the_capability() {
    let chain = json!({"cniVersion": "1.0.0", "plugins": [
        {"type": "sriov", "capabilities": {"infinibandGUID": true}}, {"type": "tuning"}]});
    let guid = "c2:11:22:33:44:55:66:77";
    let annotation = json!([{"name": "a", "infiniband-guid": guid}]).to_string();
    let planned = plan(&annotation, &[("a", chain)], json!({})).unwrap();
    let [vf, tuning] = planned.plan.attachments[1].steps.as_slice() else { panic!() };
    assert_eq!(vf.config["runtimeConfig"], json!({"infinibandGUID": guid}));
    assert_eq!(tuning.config.get("runtimeConfig"), None);
}

// Case: cni 89
#[test]
fn cni_args_override_the_definition_and_keep_other_args() {
    let config = json!({"type": "x", "args": {"cni": {"a": "1", "b": "1"}, "other": {"k": 1}}});
    let annotation = json!([{"name": "a", "cni-args": {"b": "2", "c": {"d": 3}}}]).to_string();
    let planned = plan(&annotation, &[("a", config)], json!({})).unwrap();
    let args = &planned.plan.attachments[1].steps[0].config["args"];
    assert_eq!(*args, json!({"cni": {"a": "1", "b": "2", "c": {"d": 3}}, "other": {"k": 1}}));
}

// Case: cni 17, cni 26
#[test]
fn invalid_configuration_is_rejected_when_planning() {
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
}

// Case: cni 83
#[test]
fn default_network_annotation_replaces_the_default_network_and_takes_a_device() {
    let vf = json!({"cniVersion": "1.0.0", "plugins": [
        {"type": "sriov", "capabilities": {"portMappings": true, "mac": true}}, {"type": "tuning"}]});
    let mut facts = facts("ib");
    let mut of = |default: &str| {
        facts.annotations.insert(DEFAULT_NETWORK.into(), default.into());
        let mut devices = PodDevices::default();
        devices.add("x/vf", ["d1".to_owned(), "d2".to_owned()]);
        let runtime = json!({"portMappings": [{"hostPort": 80}]});
        plan_with(&facts, &[("x:x/vf", vf.clone()), ("ib:x/vf", vf.clone())], runtime, &devices)
    };
    let planned = of("x@ib7").unwrap();
    let [default, ib] = planned.plan.attachments.as_slice() else { panic!() };
    assert_eq!(
        (default.network.as_str(), default.ifname.as_str(), default.default),
        ("kube-system/x", "eth0", true)
    );
    assert_eq!(default.steps[0].config["runtimeConfig"]["portMappings"], json!([{"hostPort": 80}]));
    assert_eq!((ib.ifname.as_str(), ib.default), ("net1", false));
    assert_eq!(
        ib.steps[0].config.get("runtimeConfig"),
        None,
        "runtimeConfig applies to the default network only"
    );
    let device = |attachment: &Attachment| attachment.device.clone().unwrap().id;
    assert_eq!((device(default), device(ib)), ("d1".to_owned(), "d2".to_owned()), "no device twice");

    assert_eq!(of("other/x").unwrap().plan.attachments[0].network, "other/x");
    let fault = of("x, ib").unwrap_err();
    assert!(fault.code == FaultCode::InvalidAnnotation && fault.what.contains("default-network"), "{fault}");
}

// Case: cni 83
#[test]
fn ipoib_default_network_is_built_in_and_gets_addresses() {
    let mut facts = facts("");
    facts.annotations.insert(DEFAULT_NETWORK.into(), "ib".into());
    let planned = plan_with(&facts, &[("ib", ipoib())], json!({}), &PodDevices::default()).unwrap();
    assert!(matches!(planned.plan.attachments[0].steps[0].kind, StepKind::Ipoib { daemon_ipam: true, .. }));
    let [ip_request] = planned.ip_requests.as_slice() else { panic!() };
    assert_eq!((ip_request.attachment, ip_request.requests[0].interface.as_str()), (0, "eth0"));
}

// Case: cni 87
#[test]
fn networks_take_devices_in_the_kubelets_order() {
    let mut devices = PodDevices::default();
    devices.add("x/vf", ["d9".to_owned(), "d1".to_owned()]);
    devices.add("x/other", ["o1".to_owned()]);
    let config = || json!({"type": "sriov"});
    let networks = [
        ("a:x/vf", config()),
        ("b:x/vf", config()),
        ("c:x/vf", config()),
        ("d:x/other", config()),
        ("e", config()),
    ];
    let planned = plan_with(&facts("a,b,c,d,e"), &networks, json!({}), &devices).unwrap();
    let ids: Vec<_> =
        planned.plan.attachments[1..].iter().map(|a| a.steps[0].config.get("deviceID").cloned()).collect();
    assert_eq!(ids, [Some(json!("d9")), Some(json!("d1")), None, Some(json!("o1")), None]);
    assert_eq!(planned.plan.attachments[3].device, None);
}

// Case: cni 88
#[test]
fn every_plugin_gets_the_device_and_only_capable_plugins_the_capability() {
    let chain = json!({"cniVersion": "1.0.0", "plugins": [
        {"type": "sriov", "capabilities": {"deviceID": true, "CNIDeviceInfoFile": true}}, {"type": "rdma"}]});
    let mut devices = PodDevices::default();
    devices.add("x/vf", ["0000:3b:00.2".to_owned()]);
    let planned = plan_with(&facts("a"), &[("a:x/vf", chain.clone())], json!({}), &devices).unwrap();
    let [vf, rdma] = planned.plan.attachments[1].steps.as_slice() else { panic!() };
    for step in [vf, rdma] {
        let keys = ["deviceID", "pciBusID"].map(|key| step.config[key].clone());
        assert_eq!(keys, [json!("0000:3b:00.2"), json!("0000:3b:00.2")]);
    }
    let file = "/var/run/k8s.cni.cncf.io/devinfo/cni/default-a-c1_net1";
    assert_eq!(vf.config["runtimeConfig"], json!({"deviceID": "0000:3b:00.2", "CNIDeviceInfoFile": file}));
    assert_eq!(rdma.config.get("runtimeConfig"), None);

    let annotation = json!([{"name": "a", "deviceID": "0000:3b:00.2"}]).to_string();
    let of = |network: &str, devices: &PodDevices| {
        let planned =
            plan_with(&facts(&annotation), &[(network, chain.clone())], json!({}), devices).unwrap();
        let step = &planned.plan.attachments[1].steps[0];
        (step.config["runtimeConfig"]["deviceID"].clone(), step.config.get("deviceID").cloned())
    };
    assert_eq!(of("a", &unrelated_device()), (json!("0000:3b:00.2"), None), "capability only");
    let mut devices = PodDevices::default();
    devices.add("x/vf", ["allocated".to_owned()]);
    assert_eq!(
        of("a:x/vf", &devices),
        (json!("allocated"), Some(json!("allocated"))),
        "the kubelet's device wins"
    );
}

#[test]
fn ib_sriov_is_built_in_and_includes_the_rdma_device() {
    let guid = "c2:11:22:33:44:55:66:77";
    let chain = json!({"cniVersion": "1.0.0", "plugins": [
        {"type": "ib-sriov", "capabilities": {"infinibandGUID": true}, "link_state": "enable",
            "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}},
        {"type": "tuning"}, {"type": "rdma"}]});
    let mut devices = PodDevices::default();
    devices.add("x/vf", ["0000:3b:00.2".to_owned()]);
    let annotation = json!([{"name": "a", "infiniband-guid": guid}]).to_string();
    let planned = plan_with(&facts(&annotation), &[("a:x/vf", chain.clone())], json!({}), &devices).unwrap();
    let [function, tuning] = planned.plan.attachments[1].steps.as_slice() else { panic!() };
    let StepKind::IbSriov { vf, daemon_ipam: true } = &function.kind else { panic!("{:?}", function.kind) };
    assert_eq!((vf.device.to_string().as_str(), vf.guid), ("0000:3b:00.2", Some(guid.parse().unwrap())));
    assert_eq!((vf.isolation, &tuning.kind), (Some(true), &StepKind::Foreign));
    assert_eq!(planned.ip_requests.len(), 1);
    // The first network takes the pod's only device, so the second one must fail.
    let fault = plan_with(&facts("a,a@net7"), &[("a:x/vf", chain)], json!({}), &devices).unwrap_err();
    assert!(fault.code == FaultCode::NoDevice && fault.remedy.contains("recreate the pod"), "{fault}");
}

// Case: cni 90
#[test]
fn infiniband_guid_wins_over_cni_args_without_the_capability() {
    let guid = "c2:11:22:33:44:55:66:77";
    let chain = |capable: bool| {
        json!({"cniVersion": "1.0.0", "plugins": [
            {"type": "ib-sriov", "capabilities": {"infinibandGUID": capable}}, {"type": "sriov"}]})
    };
    let planned = |selection: Value, chain: Value| {
        let mut devices = PodDevices::default();
        devices.add("x/vf", ["0000:3b:00.2".to_owned()]);
        let annotation = json!([selection]).to_string();
        let plan = plan_with(&facts(&annotation), &[("a:x/vf", chain)], json!({}), &devices)?.plan;
        let [function, foreign] = plan.attachments[1].steps.as_slice() else { panic!() };
        let StepKind::IbSriov { vf, .. } = &function.kind else { panic!("{:?}", function.kind) };
        Ok::<_, Fault>((vf.guid.map(|guid| guid.to_string()), foreign.config.get("args").cloned()))
    };
    let other = json!({"guid": "02:00:00:00:00:00:00:01"});
    for capable in [false, true] {
        let both = json!({"name": "a", "infiniband-guid": guid, "cni-args": other});
        let (used, foreign) = planned(both, chain(capable)).unwrap();
        assert_eq!((used.as_deref(), foreign), (Some(guid), Some(json!({"cni": other}))));
        let only = json!({"name": "a", "infiniband-guid": guid});
        assert_eq!(planned(only, chain(capable)).unwrap(), (Some(guid.to_owned()), None));
    }
    let (used, _) = planned(json!({"name": "a", "cni-args": other}), chain(false)).unwrap();
    assert_eq!(used.as_deref(), other["guid"].as_str());
    // The address of an interface is not a GUID.
    let address = json!({"name": "a", "infiniband-guid": "02:00:00:00:00:01", "cni-args": other});
    assert!(planned(address, chain(false)).is_err());
}

#[test]
fn requested_addresses_go_to_capabilities_and_cni_args() {
    let config =
        json!({"type": "static", "capabilities": {"ips": true, "portMappings": true, "bandwidth": true}});
    let annotation = json!([{"name": "a", "ips": ["10.0.0.5/24", "fd00::5/64"], "mac": "02:00:00:00:00:01",
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
        "bandwidth": {"ingressRate": 1000, "ingressBurst": 2000}}]);
    let planned = plan(&annotation.to_string(), &[("a", config)], json!({})).unwrap();
    let attachment = &planned.plan.attachments[1];
    let runtime = &attachment.steps[0].config["runtimeConfig"];
    assert_eq!(runtime["ips"], json!(["10.0.0.5/24", "fd00::5/64"]));
    assert_eq!(runtime["portMappings"], annotation[0]["portMappings"]);
    assert_eq!(runtime["bandwidth"]["ingressRate"], 1000);
    assert_eq!(runtime.get("mac"), None, "not among its capabilities");
    assert_eq!(
        (attachment.args["IP"].as_str(), attachment.args["MAC"].as_str()),
        ("10.0.0.5/24,fd00::5/64", "02:00:00:00:00:01")
    );
}

// Case: cni 103, cni 104
#[test]
fn only_one_network_per_family_has_the_default_route() {
    let routes = |annotation: Value| {
        let planned = plan(&annotation.to_string(), &[("a", ipoib()), ("b", ipoib())], json!({}))?;
        Ok::<_, Fault>(
            planned
                .plan
                .attachments
                .iter()
                .map(|a| (a.default_routes.v4, a.default_routes.v6))
                .collect::<Vec<_>>(),
        )
    };
    let via = |gateway: &str| DefaultRoute::Via(gateway.parse().unwrap());
    let (keep, remove) = (DefaultRoute::Keep, DefaultRoute::Remove);
    let one = json!([{"name": "a", "default-route": ["10.0.0.1"]}, {"name": "b"}]);
    assert_eq!(routes(one).unwrap(), [(remove, keep), (via("10.0.0.1"), keep), (remove, keep)]);
    let both =
        json!([{"name": "a", "default-route": ["10.0.0.1"]}, {"name": "b", "default-route": ["fd00::1"]}]);
    assert_eq!(
        routes(both).unwrap(),
        [(remove, remove), (via("10.0.0.1"), remove), (remove, via("fd00::1"))]
    );
    let none = json!([{"name": "a", "default-route": []}, {"name": "b"}]);
    assert_eq!(routes(none).unwrap(), [(remove, remove); 3]);
    assert_eq!(routes(json!([{"name": "a"}])).unwrap(), [(keep, keep); 2]);
    for wrong in [
        json!([{"name": "a", "default-route": ["10.0.0.1", "10.0.0.2"]}]),
        json!([{"name": "a", "default-route": ["10.0.0.1"]}, {"name": "b", "default-route": ["10.0.0.2"]}]),
    ] {
        assert_eq!(routes(wrong).unwrap_err().code, FaultCode::InvalidAnnotation);
    }
    // A gateway in the networks annotation and one in the default-network annotation must conflict, too.
    let mut facts = facts(r#"[{"name":"a","default-route":["10.0.0.1"]}]"#);
    facts.annotations.insert(DEFAULT_NETWORK.into(), r#"[{"name":"b","default-route":["10.0.0.2"]}]"#.into());
    let networks = [("a", ipoib()), ("b", ipoib())];
    let fault = plan_with(&facts, &networks, json!({}), &PodDevices::default()).unwrap_err();
    assert_eq!(fault.code, FaultCode::InvalidAnnotation);
}

#[test]
fn foreign_ipam_gets_no_addresses_from_us() {
    for ipam in [json!({"type": "host-local"}), json!({}), Value::Null] {
        let config = json!({"type": "ipoib", "master": "ib0", "mtu": 2000, "ipam": ipam});
        let planned = plan("a", &[("a", config)], json!({})).unwrap();
        let child = IpoibConfig { parent: "ib0".into(), mtu: Some(2000), ..IpoibConfig::default() };
        assert_eq!(planned.plan.attachments[1].steps[0].kind, StepKind::Ipoib { child, daemon_ipam: false });
        assert!(planned.ip_requests.is_empty());
    }
}

// Case: cni 99
#[test]
fn uid_must_match_unless_the_pod_is_static() {
    let pod = |uid: &str| PodRef { namespace: "default".into(), name: "a".into(), uid: uid.into() };
    let mut facts = facts("");
    assert_eq!(resolve_uid(&pod("u1"), &facts).unwrap().uid, "u1");
    assert_eq!(resolve_uid(&pod(""), &facts).unwrap().uid, "u1");
    assert_eq!(resolve_uid(&pod("u2"), &facts).unwrap_err().code, FaultCode::PodReplaced);
    facts.annotations.insert("kubernetes.io/config.source".into(), "file".into());
    assert_eq!(resolve_uid(&pod("u2"), &facts).unwrap().uid, "u2");
}

#[test]
fn default_network_is_the_first_that_is_not_a_meta_plugin() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, content: Value| fs::write(dir.path().join(name), content.to_string()).unwrap();
    assert_eq!(find_default_network(dir.path()).unwrap_err().code, FaultCode::NoDefaultNetwork);
    assert_eq!(find_default_network(&dir.path().join("none")).unwrap_err().code, FaultCode::NoDefaultNetwork);
    put("00-ferroband.conflist", json!({"name": "k8s", "plugins": [{"type": "ferroband"}]}));
    put("00-multus.conf", json!({"name": "multus-cni-network", "type": "multus-shim"}));
    put("README.txt", json!({}));
    put("20-later.conf", json!({"name": "later", "type": "bridge"}));
    put(
        "10-flannel.conflist",
        json!({"cniVersion": "1.0.0", "name": "cbr0", "plugins": [{"type": "flannel"}]}),
    );
    let found = find_default_network(dir.path()).unwrap();
    assert_eq!((found.network.name.as_str(), found.file.ends_with("10-flannel.conflist")), ("cbr0", true));

    fs::create_dir(dir.path().join("cbr0")).unwrap();
    put("cbr0/20-b.conf", json!({"type": "tuning", "keep": [1]}));
    put("cbr0/10-a.conf", json!({"type": "portmap"}));
    let types = |network: &NetworkConfig| -> Vec<Value> {
        network.plugins.iter().map(|p| p["type"].clone()).collect()
    };
    assert_eq!(types(&find_default_network(dir.path()).unwrap().network), ["flannel", "portmap", "tuning"]);
    put(
        "10-flannel.conflist",
        json!({"name": "cbr0", "loadOnlyInlinedPlugins": true, "plugins": [{"type": "flannel"}]}),
    );
    assert_eq!(types(&find_default_network(dir.path()).unwrap().network), ["flannel"]);
    put("10-flannel.conflist", json!({"name": "cbr0"}));
    assert_eq!(types(&find_default_network(dir.path()).unwrap().network), ["portmap", "tuning"]);

    // A partially written file must be an error, because the next file is another network.
    fs::write(dir.path().join("10-flannel.conflist"), "{").unwrap();
    let fault = find_default_network(dir.path()).unwrap_err();
    assert!(fault.what.contains("10-flannel.conflist"), "{fault}");
}

#[test]
fn existing_runtime_config_is_kept_unless_capabilities_apply() {
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

// Case: partitions 18
#[test]
fn marks_of_ib_kubernetes_in_annotations_are_ignored() {
    let network =
        json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2", "ibKubernetesEnabled": true, "pkey": "0x5"});
    let steps = |facts: &PodFacts| {
        let planned = plan_with(facts, &[("ib", network.clone())], json!({}), &unrelated_device()).unwrap();
        let attachment = planned.plan.attachments.into_iter().nth(1).unwrap();
        attachment
            .steps
            .into_iter()
            .map(|step| (step.kind, step.config.get("pkey").cloned()))
            .collect::<Vec<_>>()
    };
    let plain = steps(&facts("ib"));
    assert_eq!(plain[0].1, Some(json!("0x5")), "it does not wait for ib-kubernetes");
    let mut on_the_pod = facts("ib");
    on_the_pod.annotations.insert("mellanox.infiniband.app".to_owned(), "configured".to_owned());
    assert_eq!(steps(&on_the_pod), plain);
    for forged in [
        r#"[{"name": "ib", "mellanox.infiniband.app": "configured", "pkey": "0x6"}]"#,
        r#"[{"name": "ib", "cni-args": {"mellanox.infiniband.app": "configured", "pkey": "0x6"}}]"#,
    ] {
        assert_eq!(steps(&facts(forged)), plain, "{forged}");
    }
}
