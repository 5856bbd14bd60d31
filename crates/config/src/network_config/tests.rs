use super::*;
use serde_json::json;

fn parse(config: Value) -> Result<NetworkConfig, NetworkConfigError> {
    NetworkConfig::parse("ns/nad", &config.to_string(), "nad")
}

#[test]
fn single_configuration_becomes_a_list_of_one() {
    let written = json!({"cniVersion": "0.3.1", "type": "ipoib", "name": "jarvice-ipoib", "master": "ib0", "ipam": {"type": "whereabouts"}, "own": [1]});
    let config = parse(written.clone()).unwrap();
    assert_eq!((config.name.as_str(), config.cni_version.as_str()), ("jarvice-ipoib", "0.3.1"));
    assert_eq!(config.plugins, [written.as_object().cloned().unwrap()]);
}

// Case: cni 82
#[test]
fn missing_name_is_taken_from_the_definition() {
    for name in [json!({}), json!({"name": ""}), json!({"name": null})] {
        let mut written = json!({"type": "ipoib"});
        written.as_object_mut().unwrap().extend(name.as_object().unwrap().clone());
        let config = parse(written).unwrap();
        assert_eq!((config.name.as_str(), config.plugins[0]["name"].as_str()), ("nad", Some("nad")));
        assert_eq!(config.cni_version, "0.1.0");
    }
    let list = parse(json!({"plugins": [{"type": "ipoib"}]})).unwrap();
    assert_eq!((list.name.as_str(), list.whole["name"].as_str()), ("nad", Some("nad")));
    assert_eq!(list.plugins[0].get("name"), None);
}

#[test]
fn plugins_of_a_list_are_unchanged() {
    let config = parse(json!({
        "cniVersion": "1.0.0", "name": "l", "disableCheck": "true", "disableGC": false,
        "plugins": [{"type": "ib-sriov", "pkey": "", "rdmaIsolation": true}, {"type": "tuning", "x": {"y": null}}],
    }));
    let config = config.unwrap();
    assert_eq!((config.disable_check, config.disable_gc), (true, false));
    assert_eq!(config.plugins[1], json!({"type": "tuning", "x": {"y": null}}).as_object().cloned().unwrap());
}

#[test]
fn highest_supported_version_is_selected() {
    let version = |config: Value| parse(config).unwrap().cni_version;
    assert_eq!(
        version(json!({"type": "x", "cniVersion": "0.4.0", "cniVersions": ["1.0.0", "2.0.0", "0.3.1"]})),
        "1.0.0"
    );
    assert_eq!(version(json!({"type": "x", "cniVersions": ["0.3.1", "1.1.0"]})), "1.1.0");
    assert_eq!(
        version(json!({"type": "x", "cniVersions": ["0.5.0", "0.4.0"]})),
        "0.4.0",
        "0.5.0 never existed"
    );
    assert_eq!(version(json!({"type": "x", "cniVersion": "9.0.0"})), "9.0.0");
    assert_eq!(version(json!({"type": "x", "cniVersion": ""})), "0.1.0");
}

// Case: cni 75
#[test]
fn error_names_the_invalid_field() {
    assert!(matches!(
        NetworkConfig::parse("ns/nad", "{", "nad"),
        Err(NetworkConfigError::InvalidJson { .. })
    ));
    assert!(matches!(
        NetworkConfig::parse("ns/nad", "[]", "nad"),
        Err(NetworkConfigError::InvalidJson { .. })
    ));
    for (config, wrong) in [
        (json!({}), "type"),
        (json!({"type": ""}), "type"),
        (json!({"plugins": []}), "plugins"),
        (json!({"plugins": {}}), "plugins"),
        (json!({"plugins": [{}]}), "plugins[0].type"),
        (json!({"plugins": [{"type": "a"}, 7]}), "plugins[1]"),
        (json!({"type": "a", "name": 7}), "name"),
        (json!({"type": "a", "cniVersion": 1}), "cniVersion"),
        (json!({"type": "a", "disableCheck": "maybe"}), "disableCheck"),
    ] {
        match parse(config.clone()) {
            Err(NetworkConfigError::Field { field, network, .. }) => {
                assert_eq!((field.as_str(), network.as_str()), (wrong, "ns/nad"));
            }
            other => panic!("{config}: {other:?}"),
        }
    }
}
