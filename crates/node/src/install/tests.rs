use super::{
    CONFLIST, binaries, cancel_uninstall, conflist::write_conflist, keep_conflist, render_conflist, uninstall,
};
use crate::plan::DefaultNetwork;
use ferroband_api::cncf::NetworkConfig;
use ferroband_kernel::Root;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};
use tokio::{sync::watch, time};
use tokio_util::sync::CancellationToken;

const BRIDGE: &str = r#"{"cniVersion":"0.4.0","name":"k8s","plugins":[
    {"type":"bridge","ipam":{"type":"host-local"}},
    {"type":"portmap","capabilities":{"portMappings":true,"other":false}},
    {"type":"bandwidth","capabilities":{"bandwidth":true}}]}"#;

fn ours(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(CONFLIST)).unwrap()).unwrap()
}

fn default_network(text: &str) -> DefaultNetwork {
    let network = NetworkConfig::parse("test", text, "test").unwrap();
    DefaultNetwork { file: "10-test.conflist".into(), network }
}

#[test]
fn the_wrapped_networks_name_and_capabilities_are_ours() {
    let network = default_network(BRIDGE);
    let conflist: Value = serde_json::from_str(&render_conflist(&network)).unwrap();
    assert_eq!(
        conflist,
        json!({
            "cniVersion": "1.0.0",
            "name": "k8s",
            "plugins": [{
                "type": "ferroband", "capabilities": {"portMappings": true, "bandwidth": true},
                "delegates": [serde_json::from_str::<Value>(BRIDGE).unwrap()],
            }],
        })
    );
}

#[test]
fn a_newer_version_of_the_wrapped_network_is_kept() {
    let network = default_network(r#"{"cniVersion":"1.1.0","name":"n","type":"bridge"}"#);
    assert!(render_conflist(&network).contains(r#""cniVersion": "1.1.0""#));
}

#[test]
fn the_file_is_private_and_not_rewritten_without_need() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("10-bridge.conflist"), BRIDGE).unwrap();
    write_conflist(dir.path()).unwrap();
    let path = dir.path().join(CONFLIST);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    write_conflist(dir.path()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
}

/// Waits for `what` to hold, looking often.
async fn eventually(what: impl Fn() -> bool) -> bool {
    for _ in 0..200 {
        if what() {
            return true;
        }
        time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn the_file_follows_the_default_network_and_outlives_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("net.d");
    let (written, ready) = watch::channel(false);
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keep_conflist(Root::at(dir.path()), folder.clone(), written, stop.clone()));

    fs::create_dir(&folder).unwrap();
    time::sleep(Duration::from_millis(100)).await;
    assert!(!*ready.borrow(), "there is nothing to wrap yet");

    fs::write(folder.join("10-bridge.conflist"), BRIDGE).unwrap();
    assert!(eventually(|| *ready.borrow() && ours(&folder)["name"] == "k8s").await);

    fs::remove_file(folder.join(CONFLIST)).unwrap();
    assert!(eventually(|| folder.join(CONFLIST).exists()).await, "put back when somebody deletes it");

    fs::write(folder.join("10-bridge.conflist"), BRIDGE.replace("k8s", "other")).unwrap();
    assert!(eventually(|| ours(&folder)["name"] == "other").await);

    // Uninstalled under its hands, it lets go.
    let root = Root::at(dir.path());
    fs::create_dir_all(dir.path().join("bin")).unwrap();
    assert!(uninstall(&root, &folder, &dir.path().join("bin")).unwrap());
    time::sleep(Duration::from_millis(300)).await;
    assert!(!folder.join(CONFLIST).exists());
    cancel_uninstall(&root).unwrap();
    fs::write(folder.join("10-bridge.conflist"), BRIDGE).unwrap();
    assert!(eventually(|| folder.join(CONFLIST).exists()).await);

    stop.cancel();
    keeping.await.unwrap().unwrap();
    assert!(folder.join(CONFLIST).exists());
}

#[test]
fn the_program_is_replaced_while_it_runs_and_aliases_keep_foreign_programs() {
    let dir = tempfile::tempdir().unwrap();
    let (program, folder) = (dir.path().join("image"), dir.path().join("bin"));
    fs::create_dir(&folder).unwrap();
    // A running program cannot be written to (ETXTBSY); sleep(1) stands for the old version of ours.
    fs::copy("/bin/sleep", folder.join("ferroband")).unwrap();
    let mut running = std::process::Command::new(folder.join("ferroband")).arg("30").spawn().unwrap();
    fs::write(&program, "new").unwrap();
    fs::write(folder.join("ipoib"), "foreign").unwrap();

    let aliases = ["ipoib".to_owned(), "whereabouts".to_owned()];
    let installed = binaries(&program, &folder, &aliases);
    running.kill().unwrap();
    running.wait().unwrap();
    installed.unwrap();
    binaries(&program, &folder, &aliases).unwrap();

    assert_eq!(fs::read_to_string(folder.join("ferroband")).unwrap(), "new");
    assert_eq!(fs::metadata(folder.join("ferroband")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_to_string(folder.join("ipoib")).unwrap(), "new");
    assert_eq!(fs::read_to_string(folder.join("whereabouts")).unwrap(), "new");
    assert_eq!(fs::read_to_string(folder.join("ipoib.before-ferroband")).unwrap(), "foreign");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
}

#[test]
fn a_node_that_is_left_is_as_it_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    let aliases = ["ipoib".to_owned(), "multus".to_owned()];
    let (net_d, programs) = (root.path("etc/cni/net.d"), root.path("opt/cni/bin"));
    fs::create_dir_all(&net_d).unwrap();
    fs::create_dir_all(&programs).unwrap();
    fs::write(net_d.join("10-bridge.conflist"), BRIDGE).unwrap();
    fs::write(programs.join("bridge"), "theirs").unwrap();
    fs::write(programs.join("ipoib"), "theirs").unwrap();
    fs::write(dir.path().join("image"), "ours").unwrap();
    let files = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (files(&net_d), files(&programs));
    let install = || {
        binaries(&dir.path().join("image"), &programs, &aliases).unwrap();
        write_conflist(&net_d).unwrap();
        (files(&net_d), files(&programs))
    };
    let installed = install();
    assert_ne!(installed, before);
    // A pod of ours is running.
    fs::create_dir_all(root.state("journal")).unwrap();
    fs::write(root.state("journal/c1.json"), "{}").unwrap();
    assert!(!uninstall(&root, &net_d, &programs).unwrap());
    assert_eq!((files(&net_d), files(&programs)), installed);
    cancel_uninstall(&root).unwrap();
    fs::remove_file(root.state("journal/c1.json")).unwrap();
    assert!(uninstall(&root, &net_d, &programs).unwrap());
    assert_eq!((files(&net_d), files(&programs)), before);
    assert_eq!(fs::read_to_string(programs.join("ipoib")).unwrap(), "theirs");
    assert!(uninstall(&root, &net_d, &programs).unwrap(), "again is as good");
    assert_eq!(install(), installed);
}
