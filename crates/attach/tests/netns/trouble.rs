//! Plugins that are missing, pods that are not known, a daemon that comes and goes.

use crate::meta::{add, config, del, foreign_attachment, set_up};
use crate::stage::PodNetnsFixture;
use ferroband_attach::{Error, PluginType};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn case_94_the_journal_is_there_before_the_first_plugin_and_has_all_of_its_configuration() {
    let (stage, daemon, pod) = set_up();
    let journal = stage.root.state("journal").join("c1.json");
    let script = format!("cp {} $LEASES/../journal; echo '{{\"ips\":[]}}'", journal.display());
    stage.install_plugin("curious", &script);
    let plugins = json!([{"type": "curious", "unknown": {"to": ["us"]}}]);
    daemon.state.lock().unwrap().attachments[0] = foreign_attachment("cbr0", "eth0", true, "1.0.0", plugins);
    add(&stage, &pod).unwrap();
    let seen: Value = serde_json::from_slice(&fs::read(stage.path("journal")).unwrap()).unwrap();
    let step = &seen["entries"][0]["attachment"]["steps"][0];
    assert_eq!(step["config"]["unknown"], json!({"to": ["us"]}), "{seen}");
    assert_eq!(seen["entries"][0]["steps"][0]["state"], "intended");
    del(&stage, &pod.path).unwrap();
}

#[test]
fn case_100_a_pod_that_is_not_known_is_tried_again() {
    let fault = Fault::new(FaultCode::PodNotFound, "pod default/a", "it is not known", "wait");
    assert_eq!(Error::Reported(fault).code(), 11);
}

#[test]
fn case_108_a_hundred_adds_while_the_daemon_restarts_ten_times() {
    let (mut stage, daemon, _pod) = set_up();
    stage.timeouts.daemon_connect = Duration::from_secs(2);
    stage.timeouts.daemon_reply = Duration::from_secs(20);
    let pods: Vec<_> = (0..100).map(|number| (format!("c{number}"), PodNetnsFixture::new())).collect();
    let call = |command: &str, container: &str, pod: &PodNetnsFixture| {
        stage.run(PluginType::Ferroband, command, (container, "eth0"), &pod.path, &config())
    };
    // Each as often as it takes, as a kubelet does; anything but "try again later" is a failure.
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
    // What could not be told then is owed, and settled by the daemon's own sweep.
    let held: Vec<_> =
        daemon.held_containers().into_iter().map(|container| format!("{container}.json")).collect();
    assert_eq!(held, stage.pending_releases());
    stage.assert_clean();
}

#[test]
fn case_12_a_plugin_that_is_not_installed_does_not_stand_in_the_way_of_the_del() {
    let (stage, daemon, pod) = set_up();
    daemon.state.lock().unwrap().attachments.push(foreign_attachment(
        "n",
        "net2",
        false,
        "1.0.0",
        json!([{"type": "nowhere"}]),
    ));
    let error = add(&stage, &pod).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    stage.assert_clean();
    del(&stage, &pod.path).unwrap();
}
