use super::*;

fn attachment(config: Value) -> Attachment {
    parse_foreign(config.as_object().unwrap(), "eth0", true).unwrap()
}

fn stdin_of(attachment: &Attachment, position: usize, previous: Option<&Value>) -> Value {
    serde_json::from_slice(&build_stdin(attachment, &attachment.steps[position], previous)).unwrap()
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
fn results_are_converted_only_when_the_version_differs() {
    let result = json!({"cniVersion": "0.4.0", "ips": [], "custom": true});
    assert_eq!(to_prev_result(&result, CniVersion::V0_4_0).unwrap(), result);
    let unversioned = json!({"custom": true});
    assert_eq!(
        to_prev_result(&unversioned, CniVersion::V1_0_0).unwrap(),
        json!({"cniVersion": "1.0.0", "custom": true})
    );
    let old = json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.2/24"}});
    let new = to_prev_result(&old, CniVersion::V1_0_0).unwrap();
    assert_eq!(new, json!({"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]}));
}

#[test]
fn a_list_without_plugins_is_refused() {
    for config in [
        json!({"name": "n"}),
        json!({"name": "n", "plugins": []}),
        json!({"name": "n", "plugins": [{}]}),
        json!({"name": "n", "plugins": [5]}),
    ] {
        let error = parse_foreign(config.as_object().unwrap(), "eth0", true).unwrap_err();
        assert!(matches!(error, Error::Field { .. }), "{config}");
    }
}

#[test]
fn result_that_is_no_object_is_an_error() {
    for result in [json!("text"), json!(5), json!(true)] {
        assert!(to_prev_result(&result, CniVersion::V1_1_0).is_err(), "{result}");
    }
}

#[test]
fn foreign_attachment_has_the_fields_of_its_configuration() {
    for (default, disabled) in [(true, true), (false, false)] {
        let config =
            json!({"cniVersion": "0.4.0", "name": "cbr0", "type": "bridge", "disableCheck": disabled});
        let parsed = parse_foreign(config.as_object().unwrap(), "eth1", default).unwrap();
        assert_eq!((parsed.network.as_str(), parsed.name.as_str()), ("cbr0", "cbr0"));
        assert_eq!((parsed.cni_version.as_str(), parsed.ifname.as_str()), ("0.4.0", "eth1"));
        assert_eq!((parsed.default, parsed.unchecked, parsed.steps.len()), (default, disabled, 1));
        assert_eq!(parsed.steps[0].kind, StepKind::Foreign);
    }
}
