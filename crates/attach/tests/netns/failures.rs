//! Missing plugins, unknown pods, and a daemon that restarts.

use crate::fixture::PodNetnsFixture;
use crate::meta_plugin::{add, config, del, foreign_attachment, set_up};
use ferroband_attach::{Error, PluginType};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

// Case: cni 94
#[test]
fn the_journal_with_the_full_configuration_exists_before_the_first_plugin_runs() {
    let (fixture, daemon, pod) = set_up();
    let journal = fixture.root.state("journal").join("c1.json");
    let script = format!("cp {} $LEASES/../journal; echo '{{\"ips\":[]}}'", journal.display());
    fixture.install_plugin("curious", &script);
    let plugins = json!([{"type": "curious", "unknown": {"to": ["us"]}}]);
    daemon.state.lock().unwrap().attachments[0] = foreign_attachment("cbr0", "eth0", true, "1.0.0", plugins);
    add(&fixture, &pod).unwrap();
    let journaled: Value = serde_json::from_slice(&fs::read(fixture.path("journal")).unwrap()).unwrap();
    let step = &journaled["entries"][0]["attachment"]["steps"][0];
    assert_eq!(step["config"]["unknown"], json!({"to": ["us"]}), "{journaled}");
    assert_eq!(journaled["entries"][0]["steps"][0]["state"], "intended");
    del(&fixture, &pod.path).unwrap();
}

// Case: cni 100
#[test]
fn an_unknown_pod_returns_try_again_later() {
    let fault = Fault::new(FaultCode::PodNotFound, "pod default/a", "it was not found", "wait");
    assert_eq!(Error::Reported(fault).code(), 11);
}

// Case: cni 108
#[test]
fn a_hundred_adds_succeed_while_the_daemon_restarts_ten_times() {
    let (mut fixture, daemon, _pod) = set_up();
    fixture.timeouts.daemon_connect = Duration::from_secs(2);
    fixture.timeouts.daemon_reply = Duration::from_secs(20);
    let pods: Vec<_> = (0..100).map(|number| (format!("c{number}"), PodNetnsFixture::new())).collect();
    let call = |command: &str, container: &str, pod: &PodNetnsFixture| {
        fixture.run(PluginType::Ferroband, command, (container, "eth0"), &pod.path, &config())
    };
    // Retry like the kubelet. Any error but "try again later" is a failure.
    let attach = |container: &str, pod: &PodNetnsFixture| {
        let mut tries = 0;
        loop {
            tries += 1;
            match call("ADD", container, pod) {
                Ok(_) => return tries,
                Err(error) => assert_eq!(error.code(), 11, "{container}: {error}"),
            }
            call("DEL", container, pod).unwrap();
        }
    };
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..10 {
            let (pods, attach, done) = (&pods, &attach, &done);
            scope.spawn(move || {
                for (container, pod) in pods.iter().skip(worker).step_by(10) {
                    attach(container, pod);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for restart in 0..10 {
            while done.load(Ordering::SeqCst) < restart * 9 {
                thread::sleep(Duration::from_millis(5));
            }
            daemon.state.lock().unwrap().restart = true;
        }
    });
    assert!(daemon.state.lock().unwrap().restarts >= 9);
    for (container, pod) in &pods {
        assert_eq!(pod.addresses("net1"), ["192.168.0.5/24"], "{container}");
        call("DEL", container, pod).unwrap();
        assert_eq!(pod.link_names(), [""; 0], "{container}");
    }
    // Releases that failed during a restart must be queued for the daemon's retry.
    let held: Vec<_> =
        daemon.held_containers().into_iter().map(|container| format!("{container}.json")).collect();
    assert_eq!(held, fixture.pending_releases());
    fixture.assert_clean();
}

// Case: cni 12
#[test]
fn a_missing_plugin_does_not_block_del() {
    let (fixture, daemon, pod) = set_up();
    daemon.state.lock().unwrap().attachments.push(foreign_attachment(
        "n",
        "net2",
        false,
        "1.0.0",
        json!([{"type": "nowhere"}]),
    ));
    let error = add(&fixture, &pod).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    fixture.assert_clean();
    del(&fixture, &pod.path).unwrap();
}
