use super::*;
use ferroband_model::FaultCode;
use serde_json::Value;

const GOOD: &str = r#"{"cniVersion":"1.1.0","name":"n","type":"ipoib"}"#;

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
fn a_good_call_is_read() {
    let call = read(&with("ADD", "CNI_NETNS_OVERRIDE", "True"), GOOD).unwrap();
    assert_eq!((call.container.as_str(), call.ifname.as_str()), ("c1", "net1"));
    assert_eq!((call.netns.as_deref(), call.netns_override), (Some("/run/netns/t"), true));
    assert_eq!(call.version, CniVersion::V1_1_0);
    let call = read(&with("DEL", "CNI_NETNS", ""), GOOD).unwrap();
    assert_eq!((call.netns, call.netns_override), (None, false));
}

#[test]
fn case_1_version() {
    let answer: Value = serde_json::from_str(&version_reply()).unwrap();
    assert_eq!(answer["cniVersion"], "1.1.0");
    assert_eq!(
        answer["supportedVersions"],
        json!(["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
    );
    assert!(version_reply().ends_with("}\n"));
}

#[test]
fn case_2_all_missing_variables_are_named_at_once() {
    let bare = CniEnvironment::from_iter([("CNI_COMMAND", "ADD")]);
    let error = read(&bare, GOOD).unwrap_err();
    assert_eq!(error.code(), 4);
    assert!(
        error.fault().cause.contains("CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_PATH"),
        "{}",
        error.fault()
    );
    for (command, named) in [("DEL", "CNI_CONTAINERID, CNI_IFNAME, CNI_PATH"), ("GC", "CNI_PATH")] {
        let bare = CniEnvironment::from_iter([("CNI_COMMAND", command)]);
        assert!(read(&bare, GOOD).unwrap_err().fault().cause.contains(named));
    }
    read(&CniEnvironment::from_iter([("CNI_COMMAND", "STATUS")]), GOOD).unwrap();
}

#[test]
fn case_3_interface_names() {
    for ifname in ["a234567890123456", "a/b", "a:b", "a b", ".", "..", "a\tb", "a\u{a0}b"] {
        for command in ["ADD", "CHECK", "DEL"] {
            assert_eq!(code(&with(command, "CNI_IFNAME", ifname), GOOD), 4, "{command} {ifname:?}");
        }
    }
    read(&with("ADD", "CNI_IFNAME", "a23456789012345"), GOOD).unwrap();
}

#[test]
fn case_4_identifiers_and_configurations() {
    assert_eq!(code(&with("ADD", "CNI_CONTAINERID", "-x"), GOOD), 4);
    assert_eq!(code(&with("ADD", "CNI_CONTAINERID", "../x"), GOOD), 4);
    assert_eq!(code(&with("ADD", "CNI_CONTAINERID", ""), GOOD), 3);
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        assert_eq!(code(&variables(command), r#"{"cniVersion":"1.1.0","name":"my net"}"#), 7);
        assert_eq!(code(&variables(command), "{}"), 7);
        assert_eq!(code(&variables(command), "{"), 6);
    }
}

#[test]
fn case_5_versions_must_be_known_exactly() {
    let error = read(&variables("ADD"), r#"{"cniVersion":"0.5.0","name":"n"}"#).unwrap_err();
    assert_eq!((error.code(), error.fault().code), (1, FaultCode::IncompatibleVersion));
    let told = error_reply(&error, CniVersion::NEWEST);
    assert!(told.contains("0.5.0") && told.contains("0.1.0, 0.2.0, 0.3.0"), "{told}");
    assert_eq!(read(&variables("ADD"), r#"{"name":"n"}"#).unwrap().version, CniVersion::V0_1_0);
}

#[test]
fn case_6_commands_need_a_version() {
    let config = |version: &str| format!(r#"{{"cniVersion":"{version}","name":"n"}}"#);
    assert_eq!(code(&variables("CHECK"), &config("0.3.1")), 1);
    read(&variables("CHECK"), &config("0.4.0")).unwrap();
    for command in ["GC", "STATUS"] {
        assert_eq!(code(&variables(command), &config("1.0.0")), 1);
        read(&variables(command), &config("1.1.0")).unwrap();
    }
}

#[test]
fn case_8_unknown_commands() {
    for command in ["FOO", "add", "ADD "] {
        assert_eq!(code(&variables(command), GOOD), 4);
    }
    assert!(CniEnvironment::default().command().unwrap().is_none());
}

#[test]
fn failures_are_told_as_the_specification_wants() {
    let error = Error::NetworkName { name: "my net".into() };
    let told: Value = serde_json::from_str(&error_reply(&error, CniVersion::V0_4_0)).unwrap();
    assert_eq!((&told["cniVersion"], &told["code"]), (&json!("0.4.0"), &json!(7)));
    let text = format!("{}; {}", told["msg"].as_str().unwrap(), told["details"].as_str().unwrap());
    assert_eq!(text, error.fault().to_string());
}
