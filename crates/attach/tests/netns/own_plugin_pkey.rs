//! Plugins that another meta plugin calls, with a P_Key or a GUID. On a node with a daemon only the daemon permits them.

use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::ipoib::{self, run};
use crate::meta_plugin::assigned_addresses;
use crate::scripted_daemon::{ScriptedDaemon, ScriptedDaemonState};
use ferroband_attach::message::DaemonRequest;
use ferroband_attach::{Error, daemon_mark};
use serde_json::{Value, json};
use std::fs;

fn config(more: Value) -> Value {
    let mut config = ipoib::config("1.0.0", json!({"PKey": "0x3e8"}));
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

#[test]
fn a_pkey_is_used_when_the_daemon_permits_it_and_the_port_is_a_member() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let state = ScriptedDaemonState {
        membership: true,
        assigned: vec![assigned_addresses(0, "192.168.0.5/24")],
        ..ScriptedDaemonState::default()
    };
    let daemon = ScriptedDaemon::start(&fixture.root, state);
    // `type` does not decide what the program does, so the daemon gets the type of the program.
    let config = config(json!({"ipam": {"type": "whereabouts"}, "type": "bridge"}));
    run(&fixture, "ADD", &pod, &config).unwrap();
    assert_eq!(daemon.take_requests(), ["AddInterface", "Members", "Addresses"]);
    assert_eq!(pod.addresses("net1"), ["192.168.0.5/24"]);
    {
        let state = daemon.state.lock().unwrap();
        let DaemonRequest::AddInterface(call) = &state.recorded[0] else { panic!("{:?}", state.recorded[0]) };
        assert_eq!((&call.config["type"], &call.config["PKey"]), (&json!("ipoib"), &json!("0x3e8")));
        assert_eq!(state.netns, pod.netns.as_ref().map(ferroband_kernel::Netns::id));
    }
    run(&fixture, "DEL", &pod, &config).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Release"], vec![]));
    fixture.assert_clean();
}

#[test]
fn a_pkey_that_the_daemon_refuses_is_not_used() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    for refuse_on in ["AddInterface", "Members"] {
        let state = ScriptedDaemonState {
            membership: true,
            refuse_on: Some(refuse_on),
            ..ScriptedDaemonState::default()
        };
        let daemon = ScriptedDaemon::start(&fixture.root, state);
        let error = run(&fixture, "ADD", &pod, &config(json!({}))).unwrap_err();
        assert!(error.to_string().contains("request refused"), "{error}");
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
        fixture.assert_clean();
    }
}

#[test]
fn where_a_daemon_was_installed_no_answer_means_no() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    // After a reboot the socket does not exist until the daemon starts.
    fs::create_dir_all(fixture.root.state("")).unwrap();
    fs::write(daemon_mark(&fixture.root), "").unwrap();
    let error = run(&fixture, "ADD", &pod, &config(json!({}))).unwrap_err();
    assert!(matches!(error, Error::DaemonUnavailable { .. }), "{error}");
    let newest = config(json!({"cniVersion": "1.1.0"}));
    assert_eq!(run(&fixture, "STATUS", &pod, &newest).unwrap_err().code(), 50);
    assert_eq!((pod.link_names(), fixture.pending_releases()), (vec![], vec![]));
    fixture.assert_clean();
    run(&fixture, "DEL", &pod, &config(json!({}))).unwrap();
    assert_eq!(
        fixture.pending_releases().len(),
        1,
        "the journal may be lost, so the release waits for the daemon"
    );
    // Without a P_Key there is nothing to ask.
    let plain = config(json!({"PKey": null}));
    run(&fixture, "ADD", &pod, &plain).unwrap();
    run(&fixture, "DEL", &pod, &plain).unwrap();
    fixture.assert_clean();
}

#[test]
fn where_no_daemon_ever_was_a_pkey_is_used_as_upstream_does() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    run(&fixture, "ADD", &pod, &config(json!({}))).unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
    run(&fixture, "DEL", &pod, &config(json!({}))).unwrap();
    assert_eq!(fixture.pending_releases(), [""; 0]);
    fixture.assert_clean();
}
