use super::*;
use ferroband_config::ConfigError;
use ferroband_model::FaultCode;
use serde_json::Value;

const VALID_CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"n","type":"ipoib"}"#;

fn variables(command: &str) -> CniEnvironment {
    CniEnvironment::from_iter([
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/t"),
        ("CNI_IFNAME", "net1"),
        ("CNI_PATH", "/opt/cni/bin"),
        ("HOME", "/root"),
    ])
}

fn with(command: &str, name: &str, value: &str) -> CniEnvironment {
    let mut variables = variables(command);
    variables.0.insert(name.into(), value.into());
    variables
}

fn read(variables: &CniEnvironment, stdin: &str) -> Result<Invocation, Error> {
    let command = variables.command()?.unwrap();
    Invocation::read(command, variables, &mut stdin.as_bytes())
}

fn code(variables: &CniEnvironment, stdin: &str) -> u32 {
    read(variables, stdin).unwrap_err().code()
}

#[test]
fn a_valid_call_is_parsed() {
    let call = read(&with("ADD", "CNI_NETNS_OVERRIDE", "True"), VALID_CONFIG).unwrap();
    assert_eq!((call.container.as_str(), call.ifname.as_str()), ("c1", "net1"));
    assert_eq!((call.netns.as_deref(), call.netns_override), (Some("/run/netns/t"), true));
    assert_eq!(call.version, CniVersion::V1_1_0);
    let call = read(&with("DEL", "CNI_NETNS", ""), VALID_CONFIG).unwrap();
    assert_eq!((call.netns, call.netns_override), (None, false));
}

// Case: cni 1
#[test]
fn version_lists_the_seven_supported_versions() {
    let answer: Value = serde_json::from_str(&version_reply()).unwrap();
    assert_eq!(answer["cniVersion"], "1.1.0");
    assert_eq!(
        answer["supportedVersions"],
        json!(["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
    );
    assert!(version_reply().ends_with("}\n"));
}

#[test]
fn all_missing_variables_are_reported_at_once() {
    let bare = CniEnvironment::from_iter([("CNI_COMMAND", "ADD")]);
    let error = read(&bare, VALID_CONFIG).unwrap_err();
    assert_eq!(error.code(), 4);
    assert!(
        error.fault().cause.contains("CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_PATH"),
        "{}",
        error.fault()
    );
    for (command, named) in [("DEL", "CNI_CONTAINERID, CNI_IFNAME, CNI_PATH"), ("GC", "CNI_PATH")] {
        let bare = CniEnvironment::from_iter([("CNI_COMMAND", command)]);
        assert!(read(&bare, VALID_CONFIG).unwrap_err().fault().cause.contains(named));
    }
    read(&CniEnvironment::from_iter([("CNI_COMMAND", "STATUS")]), VALID_CONFIG).unwrap();
}

// Case: cni 3
#[test]
fn invalid_interface_names_are_rejected() {
    for ifname in ["a234567890123456", "a/b", "a:b", "a b", ".", "..", "a\tb", "a\u{a0}b", "a\0b"] {
        for command in ["ADD", "CHECK", "DEL"] {
            assert_eq!(code(&with(command, "CNI_IFNAME", ifname), VALID_CONFIG), 4, "{command} {ifname:?}");
        }
    }
    read(&with("ADD", "CNI_IFNAME", "a23456789012345"), VALID_CONFIG).unwrap();
}

// Case: cni 4
#[test]
fn invalid_container_ids_and_configurations_are_rejected() {
    assert_eq!(code(&with("ADD", "CNI_CONTAINERID", "-x"), VALID_CONFIG), 4);
    assert_eq!(code(&with("ADD", "CNI_CONTAINERID", "../x"), VALID_CONFIG), 4);
    assert_eq!(code(&with("ADD", "CNI_CONTAINERID", ""), VALID_CONFIG), 3);
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        assert_eq!(code(&variables(command), r#"{"cniVersion":"1.1.0","name":"my net"}"#), 7);
        assert_eq!(code(&variables(command), "{}"), 7);
        assert_eq!(code(&variables(command), "{"), 6);
    }
}

// Case: cni 5
#[test]
fn unknown_versions_are_incompatible_and_a_missing_one_is_0_1_0() {
    let error = read(&variables("ADD"), r#"{"cniVersion":"0.5.0","name":"n"}"#).unwrap_err();
    assert_eq!((error.code(), error.fault().code), (1, FaultCode::IncompatibleVersion));
    let reply = error_reply(&error, CniVersion::NEWEST);
    assert!(reply.contains("0.5.0") && reply.contains("0.1.0, 0.2.0, 0.3.0"), "{reply}");
    assert_eq!(read(&variables("ADD"), r#"{"name":"n"}"#).unwrap().version, CniVersion::V0_1_0);
}

// Case: cni 6
#[test]
fn check_gc_and_status_need_a_minimum_version() {
    let config = |version: &str| format!(r#"{{"cniVersion":"{version}","name":"n"}}"#);
    assert_eq!(code(&variables("CHECK"), &config("0.3.1")), 1);
    read(&variables("CHECK"), &config("0.4.0")).unwrap();
    for command in ["GC", "STATUS"] {
        assert_eq!(code(&variables(command), &config("1.0.0")), 1);
        read(&variables(command), &config("1.1.0")).unwrap();
    }
}

// Case: cni 8
#[test]
fn unknown_commands_are_rejected() {
    for command in ["FOO", "add", "ADD "] {
        assert_eq!(code(&variables(command), VALID_CONFIG), 4);
    }
    assert!(CniEnvironment::default().command().unwrap().is_none());
}

#[test]
fn errors_are_printed_in_the_specified_format() {
    let error = Error::from(ConfigError::NetworkName { name: "my net".into() });
    let reply: Value = serde_json::from_str(&error_reply(&error, CniVersion::V0_4_0)).unwrap();
    assert_eq!((&reply["cniVersion"], &reply["code"]), (&json!("0.4.0"), &json!(7)));
    let text = format!("{}; {}", reply["msg"].as_str().unwrap(), reply["details"].as_str().unwrap());
    assert_eq!(text, error.fault().to_string());
}

#[test]
fn missing_and_empty_container_ids_are_different_errors() {
    let empty = read(&with("ADD", "CNI_CONTAINERID", ""), VALID_CONFIG);
    assert!(matches!(empty, Err(Error::EmptyContainer)), "{empty:?}");
    let mut without = variables("ADD");
    without.0.remove("CNI_CONTAINERID");
    let missing = read(&without, VALID_CONFIG);
    assert!(
        matches!(&missing, Err(Error::MissingVariables { names, .. }) if *names == ["CNI_CONTAINERID"]),
        "{missing:?}"
    );
}
