use super::*;
use serde_json::json;

fn parse(config: Value) -> Result<StepKind, Error> {
    StepKind::from_config(config.as_object().unwrap())
}

#[test]
fn dhcp_is_refused_for_interface_plugins_only() {
    let ipam = json!({"type": "dhcp"});
    let refused = parse(json!({"type": "ipoib", "master": "ib0", "ipam": ipam}));
    assert!(matches!(refused, Err(Error::Config(ConfigError::Dhcp))), "{refused:?}");
    let refused = parse(json!({"type": "ib-sriov", "deviceID": "0000:86:00.1", "ipam": ipam}));
    assert!(matches!(refused, Err(Error::Config(ConfigError::Dhcp))), "{refused:?}");
    for other in ["rdma", "coordinator", "whereabouts", "macvlan"] {
        assert!(parse(json!({"type": other, "ipam": ipam})).is_ok(), "{other}");
    }
}

#[test]
fn daemon_assigns_addresses_of_its_own_ipam_types() {
    for (ipam, expected) in [
        (json!({"type": "whereabouts"}), true),
        (json!({"type": "spiderpool"}), true),
        (json!({"type": "host-local"}), false),
        (json!({}), false),
    ] {
        let step = parse(json!({"type": "ipoib", "master": "ib0", "ipam": ipam})).unwrap();
        assert_eq!(step.uses_daemon_ipam(), expected, "{ipam}");
        let step = parse(json!({"type": "ib-sriov", "deviceID": "0000:86:00.1", "ipam": ipam})).unwrap();
        assert_eq!(step.uses_daemon_ipam(), expected, "{ipam}");
    }
    let foreign = parse(json!({"type": "macvlan", "ipam": {"type": "whereabouts"}})).unwrap();
    assert_eq!((foreign.uses_daemon_ipam(), foreign), (false, StepKind::Foreign));
}

#[test]
fn empty_device_id_of_rdma_counts_as_absent() {
    for (device, expected) in [("", None), ("0000:86:00.1", Some("0000:86:00.1"))] {
        let step = parse(json!({"type": "rdma", "deviceID": device})).unwrap();
        assert_eq!(step, StepKind::Rdma { device: expected.map(str::to_owned) });
    }
}

#[test]
fn default_routes_are_stored_only_if_they_change() {
    let stored = |default_routes: DefaultRoutes| {
        let attachment = Attachment { default_routes, ..Attachment::default() };
        let value = serde_json::to_value(&attachment).unwrap();
        assert_eq!(serde_json::from_value::<Attachment>(value.clone()).unwrap(), attachment);
        value
    };
    let keep = DefaultRoutes::default();
    let change = DefaultRoutes { v6: DefaultRoute::Remove, ..keep };
    assert_eq!((keep.is_keep(), change.is_keep()), (true, false));
    assert!(stored(keep).as_object().unwrap().len() < stored(change).as_object().unwrap().len());
}

fn attachment(config: Value) -> Attachment {
    Attachment::foreign(config.as_object().unwrap(), "eth0", true).unwrap()
}

fn stdin_of(attachment: &Attachment, position: usize, previous: Option<&Value>) -> Value {
    serde_json::from_slice(&attachment.stdin(&attachment.steps[position], previous)).unwrap()
}

#[test]
fn every_plugin_gets_the_name_and_version_of_the_list() {
    let list = attachment(json!({
        "cniVersion": "0.4.0", "name": "cbr0",
        "plugins": [{"type": "flannel", "delegate": {"isDefaultGateway": true}}, {"type": "portmap", "Name": "x"}],
    }));
    assert_eq!(
        stdin_of(&list, 0, None),
        json!({"type": "flannel", "delegate": {"isDefaultGateway": true}, "name": "cbr0", "cniVersion": "0.4.0"})
    );
    let previous = json!({"cniVersion": "0.4.0", "ips": []});
    assert_eq!(
        stdin_of(&list, 1, Some(&previous)),
        json!({"type": "portmap", "name": "cbr0", "cniVersion": "0.4.0", "prevResult": previous})
    );
}

#[test]
fn a_single_configuration_is_a_chain_of_one() {
    let one =
        attachment(json!({"cniVersion": "0.3.1", "name": "n", "type": "bridge", "prevResult": {"a": 1}}));
    assert_eq!(one.steps[0].plugin(), "bridge");
    assert_eq!(stdin_of(&one, 0, None), json!({"cniVersion": "0.3.1", "name": "n", "type": "bridge"}));
}

#[test]
fn runtime_config_is_limited_to_the_plugins_capabilities() {
    let built_with = |capabilities: Value| {
        let mut one = attachment(json!({"name": "n", "type": "t"}));
        one.steps[0].config.insert("runtimeConfig".into(), json!({"portMappings": [1], "mac": "m"}));
        one.steps[0].config.insert("capabilities".into(), capabilities);
        stdin_of(&one, 0, None)
    };
    let stdin = built_with(json!({"portMappings": true, "ips": true, "mac": false}));
    assert_eq!(stdin["runtimeConfig"], json!({"portMappings": [1]}));
    assert_eq!(stdin["capabilities"]["ips"], json!(true));
    assert!(built_with(json!({})).get("runtimeConfig").is_none());
    assert!(built_with(json!(null)).get("runtimeConfig").is_none());
}

#[test]
fn user_configuration_is_passed_on_unchanged() {
    let odd =
        json!({"type": "t", "big": u64::MAX, "neg": i64::MIN, "s": "é\u{0}\"", "deep": {"a": [null, {}]}});
    let mut config = odd.clone();
    config["name"] = json!("n");
    let one = attachment(config);
    let stdin = stdin_of(&one, 0, None);
    for (key, value) in odd.as_object().unwrap() {
        assert_eq!(&stdin[key], value, "{key}");
    }
}

#[test]
fn a_list_without_plugins_is_refused() {
    for config in [
        json!({"name": "n"}),
        json!({"name": "n", "plugins": []}),
        json!({"name": "n", "plugins": [{}]}),
        json!({"name": "n", "plugins": [5]}),
    ] {
        let error = Attachment::foreign(config.as_object().unwrap(), "eth0", true).unwrap_err();
        assert!(matches!(error, Error::Config(ConfigError::Field { .. })), "{config}");
    }
}

#[test]
fn foreign_attachment_has_the_fields_of_its_configuration() {
    for (default, disabled) in [(true, true), (false, false)] {
        let config =
            json!({"cniVersion": "0.4.0", "name": "cbr0", "type": "bridge", "disableCheck": disabled});
        let parsed = Attachment::foreign(config.as_object().unwrap(), "eth1", default).unwrap();
        assert_eq!((parsed.network.as_str(), parsed.name.as_str()), ("cbr0", "cbr0"));
        assert_eq!((parsed.cni_version.as_str(), parsed.ifname.as_str()), ("0.4.0", "eth1"));
        assert_eq!((parsed.default, parsed.unchecked, parsed.steps.len()), (default, disabled, 1));
        assert_eq!(parsed.steps[0].kind, StepKind::Foreign);
    }
}

#[test]
fn a_step_is_serialized_losslessly() {
    let config = json!({"deviceID": "0000:86:00.2", "link_state": "enable", "mtu": 2044, "rdmaIsolation": true,
        "ipam": {"type": "whereabouts"}, "runtimeConfig": {"infinibandGUID": "01:23:45:67:89:ab:cd:ef"}});
    let kind = StepKind::for_plugin(PluginType::IbSriov, config.as_object().unwrap()).unwrap();
    assert!(kind.uses_daemon_ipam());
    let text = serde_json::to_string(&kind).unwrap();
    assert_eq!(serde_json::from_str::<StepKind>(&text).unwrap(), kind);
}

#[test]
fn a_pkey_or_a_guid_needs_the_permission_of_the_daemon() {
    let uses =
        |config: Value| StepKind::from_config(config.as_object().unwrap()).unwrap().uses_fabric_identity();
    let vf = |more: Value| {
        let mut config = json!({"type": "ib-sriov", "deviceID": "0000:86:00.2"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    assert!(uses(json!({"type": "ipoib", "master": "ib0", "PKEY": 5})));
    assert!(!uses(json!({"type": "ipoib", "master": "ib0", "pkey": ""})));
    assert!(uses(vf(json!({"pkey": "0x5"}))));
    assert!(uses(vf(json!({"runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:01"}}))));
    assert!(uses(vf(json!({"args": {"cni": {"guid": "02:00:00:00:00:00:00:01"}}}))));
    assert!(!uses(vf(json!({}))) && !uses(json!({"type": "bridge", "pkey": 5})));
}
