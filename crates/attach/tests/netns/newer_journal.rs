//! Journals of a newer release, after a rollback to this one: nothing leaks.

use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::meta_plugin::{ETH0, foreign_attachment, ipoib_attachment, set_up};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::plan::StepKind;
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;

fn config() -> Value {
    json!({"cniVersion": "1.1.0", "name": "ferroband", "delegates": [{"name": "cbr0", "type": "lease"}]})
}

fn run(
    fixture: &AttachFixture,
    command: &str,
    pod: &PodNetnsFixture,
    config: &Value,
) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, command, ETH0, &pod.path, config)
}

/// Attach a pod to the default network, an IPoIB network with a foreign IPAM plugin, and a foreign network. Then
/// rewrite its journal as a newer release might.
fn attach_with_newer_journal() -> (AttachFixture, ScriptedDaemon, PodNetnsFixture) {
    let (fixture, daemon, pod) = set_up();
    fixture.install_leasing_plugin("ipam", "10.8.0.7/24");
    fixture.install_leasing_plugin("second", "10.7.0.7/24");
    let mut ipoib = ipoib_attachment("net1");
    ipoib.steps[0].config["ipam"] = json!({"type": "ipam"});
    ipoib.steps[0].kind = StepKind::from_config(&ipoib.steps[0].config).unwrap();
    let second = foreign_attachment("second", "net2", false, "1.1.0", json!([{"type": "second", "keep": 1}]));
    let default = foreign_attachment("cbr0", "eth0", true, "1.1.0", json!([{"type": "lease"}]));
    daemon.state.lock().unwrap().attachments = vec![default, ipoib, second];
    run(&fixture, "ADD", &pod, &config()).unwrap();
    assert_eq!(fixture.files(&fixture.path("leases")).len(), 3);
    edit_journal(&fixture, |journal| {
        journal["schema"] = json!(2);
        journal["pod"] = json!("an unknown format");
        journal["entries"][1]["attachment"]["steps"][0]["by"] =
            json!({"kind": "ipoib", "child": {"parents": []}});
        let unknown = json!({"config": {"type": "rdma"}, "by": {"kind": "later"}});
        journal["entries"][2]["attachment"]["steps"].as_array_mut().unwrap().push(unknown);
        journal["entries"][2]["attachment"]["default_routes"] = json!(["an unknown format"]);
    });
    fixture.take_log();
    (fixture, daemon, pod)
}

fn edit_journal(fixture: &AttachFixture, edit: impl FnOnce(&mut Value)) {
    let path = fixture.root.state("journal/c1.json");
    let mut journal = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut journal);
    fs::write(path, journal.to_string()).unwrap();
}

// Case: cni 96
#[test]
fn del_calls_the_plugins_of_every_network() {
    let (fixture, daemon, pod) = attach_with_newer_journal();
    run(&fixture, "DEL", &pod, &config()).unwrap();
    assert_eq!(fixture.take_log(), ["DEL second net2", "DEL ipam net1", "DEL lease eth0"]);
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    fixture.assert_clean();
}

// Case: cni 97
#[test]
fn a_failed_plugin_keeps_the_journal_for_a_retry() {
    let (fixture, daemon, pod) = attach_with_newer_journal();
    fixture.install_plugin("second", "exit 1");
    let error = run(&fixture, "DEL", &pod, &config()).unwrap_err();
    assert!(error.to_string().contains("second"), "{error}");
    assert_eq!((fixture.journals(), daemon.held_containers().len()), (vec!["c1.json".to_owned()], 1));
    fixture.install_leasing_plugin("second", "10.7.0.7/24");
    run(&fixture, "DEL", &pod, &config()).unwrap();
    assert_eq!(daemon.held_containers(), [""; 0]);
    fixture.assert_clean();
}

#[test]
fn an_add_of_the_same_sandbox_first_calls_the_plugins_of_every_network() {
    let (fixture, _daemon, pod) = attach_with_newer_journal();
    let again = PodNetnsFixture::new();
    run(&fixture, "ADD", &again, &config()).unwrap();
    let log = fixture.take_log();
    assert_eq!(log[..3], ["DEL second net2", "DEL ipam net1", "DEL lease eth0"]);
    assert_eq!(pod.link_names(), [""; 0]);
    run(&fixture, "DEL", &again, &config()).unwrap();
    fixture.assert_clean();
}

// Case: cni 105
#[test]
fn gc_deletes_a_stale_sandbox_and_keeps_a_valid_one() {
    let (fixture, daemon, pod) = attach_with_newer_journal();
    fixture.install_plugin(
        "second",
        "case $CNI_COMMAND in GC) echo \"$IN\" > $LEASES/../gc;; DEL) rm $LEASES/second*;; esac",
    );
    let mut gc = config();
    gc["cni.dev/valid-attachments"] = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run(&fixture, "GC", &pod, &gc).unwrap();
    assert_eq!(fixture.journals(), ["c1.json"]);
    let received: Value = serde_json::from_slice(&fs::read(fixture.path("gc")).unwrap()).unwrap();
    assert_eq!(received["cni.dev/valid-attachments"], json!([{"containerID": "c1", "ifname": "net2"}]));

    // The networks of a valid sandbox may be unknown. Then a plugin with an incomplete list would delete what is in use.
    let known = fs::read(fixture.root.state("journal/c1.json")).unwrap();
    fs::write(fixture.root.state("journal/c1.json"), "{").unwrap();
    fs::write(fixture.root.state("journal/c2.json"), &known).unwrap();
    gc["cni.dev/valid-attachments"] =
        json!([{"containerID": "c1", "ifname": "eth0"}, {"containerID": "c2", "ifname": "eth0"}]);
    fixture.take_log();
    run(&fixture, "GC", &pod, &gc).unwrap();
    assert!(!fixture.take_log().contains(&"GC second ".to_owned()));
    fs::remove_file(fixture.root.state("journal/c2.json")).unwrap();
    fs::write(fixture.root.state("journal/c1.json"), &known).unwrap();

    gc["cni.dev/valid-attachments"] = json!([]);
    fixture.take_log();
    run(&fixture, "GC", &pod, &gc).unwrap();
    let log = fixture.take_log();
    assert_eq!(log[..3], ["DEL second net2", "DEL ipam net1", "DEL lease eth0"], "{log:?}");
    assert_eq!(daemon.held_containers(), [""; 0]);
    assert_eq!((fixture.journals(), fixture.files(&fixture.path("leases"))), (vec![], vec![]));
}
