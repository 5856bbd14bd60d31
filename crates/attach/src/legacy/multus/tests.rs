use super::*;
use serde_json::json;

/// Encode `config` with the program `base64`, independently of the decoder under test.
fn encoded(config: &Value) -> String {
    use std::io::Write;
    let mut child = std::process::Command::new("base64")
        .arg("-w0")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

fn put(root: &Root, name: &str, content: &str) {
    let path = root.path(MULTUS_DIR).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn summary(left: &MultusState) -> Vec<(&str, &str, bool)> {
    left.attachments().map(|one| (one.name.as_str(), one.ifname.as_str(), one.default)).collect()
}

// Case: cni 95
#[test]
fn attachments_are_rebuilt_from_the_delegates_file_and_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    assert!(MultusState::load(&root, "c1", "eth0", "1.0.0").is_none());
    let flannel = json!({"name": "cbr0", "plugins": [{"type": "flannel", "keep": 1}, {"type": "portmap"}]});
    let ib = json!({"cniVersion": "0.3.1", "name": "ib", "type": "ib-sriov", "capabilities": {"mac": true}});
    let list = json!([
        {"Conf": {"name": "", "type": ""}, "ConfList": {"name": "cbr0", "plugins": [{"type": "flannel"}]},
         "Name": "cbr0", "Bytes": encoded(&flannel)},
        {"Conf": ib, "ConfList": {}, "Name": "default/ib", "ifnameRequest": "ib7", "resourceName": "a/b",
         "deviceID": "0000:01:00.1"},
        {"Conf": {"type": "ipoib", "name": "third"}, "Name": "default/third"},
    ]);
    put(&root, "c1", &list.to_string());
    let cached = json!({
        "kind": "cniCacheV1", "containerId": "c1", "ifName": "ib7", "networkName": "ib",
        "config": encoded(&ib), "capabilityArgs": {"mac": "02:00:00:00:00:01"},
        "cniArgs": [["IgnoreUnknown", "true"], ["K8S_POD_NAME", "p"]],
        "result": {"cniVersion": "0.3.1", "ips": []},
    });
    put(&root, "results/ib-c1-ib7", &cached.to_string());
    put(&root, "results/ib-c10-ib7", &cached.to_string().replace("\"c1\"", "\"c10\""));

    let left = MultusState::load(&root, "c1", "eth0", "1.0.0").unwrap();
    assert_eq!(summary(&left), [("cbr0", "eth0", true), ("ib", "ib7", false), ("third", "net2", false)]);
    let [default, ib, _] = left.attachments.as_slice() else { panic!() };
    assert_eq!(default.attachment.steps[0].config["keep"], 1, "unknown keys are kept");
    assert_eq!(default.attachment.cni_version, "1.0.0", "filled in from the call");
    assert_eq!(
        ib.attachment.device,
        Some(crate::ipc::plan::AttachmentDevice { resource: "a/b".into(), id: "0000:01:00.1".into() })
    );
    assert_eq!(ib.attachment.steps[0].config["runtimeConfig"]["mac"], "02:00:00:00:00:01");
    assert_eq!(ib.args.as_deref(), Some("IgnoreUnknown=true;K8S_POD_NAME=p"));
    assert!(ib.result.is_some() && ib.cache_file.as_ref().unwrap().ends_with("results/ib-c1-ib7"));
    assert_eq!(list_containers(&root), ["c1"]);
}

// Case: cni 96
#[test]
fn a_damaged_delegates_file_falls_back_to_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let entry = |ifname: &str, name: &str| {
        let config = encoded(&json!({"cniVersion": "1.0.0", "name": name, "type": "x"}));
        json!({"containerId": "c1", "ifName": ifname, "networkName": name, "config": config}).to_string()
    };
    for text in ["", "[]", "{", "null", "[null, 3, {}]", r#"[{"Bytes": "%"}]"#] {
        put(&root, "c1", text);
        let left = MultusState::load(&root, "c1", "eth0", "1.0.0").unwrap();
        assert!(left.attachments.is_empty() && left.delegates_file.is_some(), "{text}");
    }
    put(&root, "results/b-c1-net1", &entry("net1", "b"));
    put(&root, "results/a-c1-eth0", &entry("eth0", "a"));
    put(&root, "results/z-c1-net9", "{");
    let left = MultusState::load(&root, "c1", "eth0", "1.0.0").unwrap();
    assert_eq!(summary(&left), [("a", "eth0", true), ("b", "net1", false)]);
}

#[test]
fn base64_is_decoded_as_in_rfc_4648() {
    let cases = [
        ("", ""),
        ("Zg==", "f"),
        ("Zm8=", "fo"),
        ("Zm9v", "foo"),
        ("Zm9vYg==", "foob"),
        ("Zm9vYmE=", "fooba"),
    ];
    for (text, plain) in cases {
        assert_eq!(state_files::decode(text).as_deref(), Some(plain.as_bytes()));
    }
    assert_eq!(state_files::decode("+/+/").as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
    for wrong in ["Z", "Zm9vY", "Zm 9", "Zm9-"] {
        assert_eq!(state_files::decode(wrong), None, "{wrong}");
    }
}
