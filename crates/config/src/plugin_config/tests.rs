use super::*;

fn config(text: &str) -> PluginConfig {
    PluginConfig::parse(text.as_bytes().to_vec()).unwrap()
}

#[test]
fn keys_match_case_insensitively_and_the_last_of_equal_keys_wins() {
    assert_eq!(config(r#"{"Master":"ib0"}"#).fields().text("master").unwrap(), Some("ib0"));
    let both = config(r#"{"MASTER":"ib1","master":"ib0"}"#);
    assert_eq!(both.fields().text("master").unwrap(), Some("ib0"));
    let both = config(r#"{"master":"ib0","MASTER":"ib1"}"#);
    assert_eq!(both.fields().text("master").unwrap(), Some("ib1"));
}

#[test]
fn null_counts_as_absent_and_unknown_keys_are_ignored() {
    let config = config(r#"{"master":null,"mtu":null,"vf":7}"#);
    assert_eq!(config.fields().text("master").unwrap(), None);
    assert_eq!(config.fields().integer("mtu").unwrap(), None);
    assert_eq!(config.map().keys().collect::<Vec<_>>(), ["master", "mtu", "vf"]);
    assert!(PluginConfig::parse(b"null".to_vec()).unwrap().map().is_empty());
}

#[test]
fn the_last_of_two_equal_keys_wins() {
    assert_eq!(config(r#"{"mtu":1,"mtu":2}"#).fields().integer("mtu").unwrap(), Some(2));
}

#[test]
fn a_value_of_the_wrong_type_is_an_error() {
    let config = config(r#"{"mtu":"1500","master":5,"ipam":[],"x":1.5}"#);
    for error in [
        config.fields().integer("mtu").unwrap_err(),
        config.fields().text("master").unwrap_err(),
        config.interface().unwrap_err(),
        config.fields().integer("x").unwrap_err(),
    ] {
        assert!(matches!(error, ConfigError::Field { .. }), "{error}");
    }
}

#[test]
fn booleans_may_be_strings() {
    let config = config(r#"{"a":true,"b":"true","c":"false","d":"yes"}"#);
    assert!(config.fields().flag("a").unwrap() && config.fields().flag("b").unwrap());
    assert!(!config.fields().flag("c").unwrap() && !config.fields().flag("absent").unwrap());
    assert!(config.fields().flag("d").is_err());
}

#[test]
fn the_original_bytes_are_kept() {
    let text = "{ \"name\" : \"n\",\n\t\"b\":1, \"a\":2 }";
    assert_eq!(config(text).bytes(), text.as_bytes());
}

#[test]
fn invalid_network_names_are_rejected() {
    for name in ["", "my net", "-x", ".x", "a/b", "é"] {
        let config = config(&serde_json::json!({ "name": name }).to_string());
        assert!(matches!(config.name(), Err(ConfigError::NetworkName { .. })), "{name:?}");
    }
    assert_eq!(config(r#"{"name":"jarvice-ipoib_1.2"}"#).name().unwrap(), "jarvice-ipoib_1.2");
}

#[test]
fn invalid_json_is_rejected() {
    for text in ["", "{", "[]", "5", "{} x", "{\"a\":\u{1}}"] {
        let parsed = PluginConfig::parse(text.as_bytes().to_vec());
        assert!(matches!(parsed, Err(ConfigError::InvalidJson { .. })), "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert!(PluginConfig::parse(deep.into_bytes()).is_err());
}
