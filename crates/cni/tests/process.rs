//! Tests that run the binary as a process without changing the system: plugin names, CNI versions and errors.

use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

fn run_program(name: &str, arguments: &[&str], variables: &[(&str, &str)], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferroband-cni"))
        .arg0(name)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Ignore a write error: the plugin may exit without reading standard input.
    let _ = std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), stdin.as_bytes());
    child.wait_with_output().expect("the program ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

// Case: cni 1
#[test]
fn version_works_under_every_name() {
    for name in ["ferroband", "/opt/cni/bin/ipoib", "whereabouts", "ferroband-cni"] {
        let output = run_program(name, &[], &[("CNI_COMMAND", "VERSION")], "not even JSON");
        assert!(output.status.success());
        assert_eq!(json(&output)["supportedVersions"].as_array().map(Vec::len), Some(7));
    }
}

#[test]
fn without_a_command_it_prints_a_description() {
    let output = run_program("ipoib", &[], &[], "");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(stderr.contains("IPoIB") && stderr.contains("1.1.0"), "{stderr}");
    for (argument, word) in
        [("--version", env!("CARGO_PKG_VERSION")), ("-V", "ipoib"), ("--help", "whereabouts")]
    {
        let output = run_program("ipoib", &[argument], &[], "");
        assert!(String::from_utf8_lossy(&output.stdout).contains(word), "{argument}");
    }
}

#[test]
fn errors_are_json_on_standard_output() {
    let output = run_program("ferroband", &[], &[("CNI_COMMAND", "ADD")], "{}");
    assert_eq!((output.status.code(), &json(&output)["code"]), (Some(1), &json!(4)));
    let all = [
        ("CNI_COMMAND", "DEL"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    assert_eq!(json(&run_program("ferroband", &[], &all, "{"))["code"], 6);
    let reply = json(&run_program("ferroband", &[], &all, r#"{"cniVersion":"0.4.0","name":"my net"}"#));
    assert_eq!((&reply["code"], &reply["cniVersion"]), (&json!(7), &json!("0.4.0")));
}

#[test]
fn an_unknown_program_name_is_rejected() {
    let output = run_program("/opt/cni/bin/bridge", &[], &[("CNI_COMMAND", "ADD")], "{}");
    assert_eq!(output.status.code(), Some(1));
    let reply = json(&output);
    assert_eq!(reply["code"], 4);
    assert!(reply["msg"].as_str().is_some_and(|text| text.contains("bridge")), "{reply}");
}
