//! `kill -9` at every fail point followed by DEL leaves nothing behind.

use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::meta_plugin::{ETH0, config, set_up};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::plan::{AttachmentDevice, DefaultRoute};
use ferroband_attach::{CniContext, Error, FailPoint, PluginType, device_info};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Run a call that is killed at its `last`th fail point. Returns `None` if it was killed.
pub fn run_killed_at_point<T>(last: usize, call: impl FnOnce(&dyn Fn(FailPoint)) -> T) -> Option<T> {
    let passed = Cell::new(0);
    let watch = |_: FailPoint| {
        passed.set(passed.get() + 1);
        if passed.get() == last {
            // Unwind without a panic message. No code of the plugin undoes anything while unwinding.
            resume_unwind(Box::new("killed"));
        }
    };
    catch_unwind(AssertUnwindSafe(|| call(&watch))).ok()
}

/// Run a CNI call that is killed at its `last`th fail point. Returns `None` if it was killed.
fn run_call_killed_at(
    fixture: &AttachFixture,
    plugin_type: PluginType,
    command: &str,
    ifname: &str,
    netns: &str,
    config: &Value,
    last: usize,
) -> Option<Result<Value, Error>> {
    let call = fixture.call(command, "c1", ifname, netns, config);
    run_killed_at_point(last, |watch| {
        fixture.run_on(&CniContext { fail_point: watch, ..fixture.context() }, plugin_type, &call)
    })
}

fn assert_gone(fixture: &AttachFixture, daemon: &ScriptedDaemon, pod: &PodNetnsFixture, after: usize) {
    assert_eq!(pod.link_names(), [""; 0], "in the pod after a kill at point {after}");
    assert_eq!(daemon.held_containers(), [""; 0], "addresses after a kill at point {after}");
    let infos = fixture.files(&fixture.root.run("k8s.cni.cncf.io/devinfo/cni"));
    assert_eq!(infos, [""; 0], "device-info files after a kill at point {after}");
    fixture.assert_clean();
}

/// Kill ADD, then DEL, at each fail point in turn. Returns the number of fail points of an ADD.
fn kill_at_every_point(plugin_type: PluginType, ifname: &str, config: &Value) -> usize {
    kill_at_every_point_with(plugin_type, ifname, config, |_, _| {})
}

fn kill_at_every_point_with(
    plugin_type: PluginType,
    ifname: &str,
    config: &Value,
    prepare: impl FnOnce(&AttachFixture, &ScriptedDaemon),
) -> usize {
    let (fixture, daemon, pod) = set_up();
    prepare(&fixture, &daemon);
    daemon.state.lock().unwrap().assigned[0].attachment = usize::from(plugin_type.is_meta());
    let run =
        |command, last| run_call_killed_at(&fixture, plugin_type, command, ifname, &pod.path, config, last);
    let mut points = 0;
    loop {
        match run("ADD", points + 1) {
            Some(done) => {
                done.unwrap();
                break;
            }
            None => points += 1,
        }
        run("DEL", usize::MAX).unwrap().unwrap();
        assert_gone(&fixture, &daemon, &pod, points);
    }
    run("DEL", usize::MAX).unwrap().unwrap();

    for point in 1.. {
        run("ADD", usize::MAX).unwrap().unwrap();
        let done = run("DEL", point);
        let finished = done.is_some();
        run("DEL", usize::MAX).unwrap().unwrap();
        assert_gone(&fixture, &daemon, &pod, point);
        if finished {
            assert!(point > 2, "DEL should have more than {point} points");
            break;
        }
    }
    points
}

#[test]
fn meta_plugin_killed_at_any_point_leaves_nothing() {
    let points = kill_at_every_point(PluginType::Ferroband, "eth0", &config());
    // Expected fail points: begin, plan, default network, interface (two writes, three changes), addresses,
    // end.
    assert!(points >= 11, "only {points} points");
}

#[test]
fn meta_plugin_with_device_and_default_route_killed_at_any_point_leaves_nothing() {
    let plain = kill_at_every_point(PluginType::Ferroband, "eth0", &config());
    let points = kill_at_every_point_with(PluginType::Ferroband, "eth0", &config(), |fixture, daemon| {
        let mut state = daemon.state.lock().unwrap();
        let network = &mut state.attachments[1];
        network.device = Some(AttachmentDevice { resource: "x/vf".into(), id: "d1".into() });
        network.default_routes.v4 = DefaultRoute::Via("192.168.0.1".parse().unwrap());
        let info = device_info::device_plugin_file(&fixture.root, network.device.as_ref().unwrap());
        fs::create_dir_all(info.parent().unwrap()).unwrap();
        fs::write(info, "{}").unwrap();
    });
    assert!(points > plain, "{points} points, {plain} without");
}

#[test]
fn ipoib_killed_at_any_point_leaves_nothing() {
    let daemon_ipam = json!({"cniVersion": "1.0.0", "name": "n", "type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts"}});
    assert!(kill_at_every_point(PluginType::Ipoib, "net1", &daemon_ipam) >= 8);
    let foreign = json!({"cniVersion": "1.0.0", "name": "n", "type": "ipoib", "master": "ib0", "ipam": {"type": "lease"}});
    assert!(kill_at_every_point(PluginType::Ipoib, "net1", &foreign) >= 9);
}

#[test]
fn whereabouts_killed_at_any_point_leaves_nothing() {
    let config =
        json!({"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "ipam": {"type": "whereabouts"}});
    assert!(kill_at_every_point(PluginType::Whereabouts, "net1", &config) >= 2);
}

#[test]
fn add_succeeds_after_a_killed_add() {
    let (fixture, daemon, pod) = set_up();
    for point in 1.. {
        let Some(done) =
            run_call_killed_at(&fixture, PluginType::Ferroband, "ADD", "eth0", &pod.path, &config(), point)
        else {
            fixture
                .run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config())
                .or_else(|error| match error {
                    // The first ADD was killed after its last write, so the sandbox is attached. A second ADD
                    // must then fail until a DEL.
                    Error::AlreadyAttached { .. } => Ok(Value::Null),
                    error => Err(error),
                })
                .unwrap();
            fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
            assert_gone(&fixture, &daemon, &pod, point);
            continue;
        };
        done.unwrap();
        break;
    }
}

#[test]
fn the_journal_is_written_before_every_change() {
    let (fixture, _daemon, pod) = set_up();
    let observed = RefCell::new(Vec::new());
    let watch = |point: FailPoint| {
        let text = fs::read_to_string(fixture.root.state("journal").join("c1.json")).unwrap_or_default();
        observed.borrow_mut().push((point, text));
    };
    let context = CniContext { fail_point: &watch, ..fixture.context() };
    let call = fixture.call("ADD", "c1", "eth0", &pod.path, &config());
    fixture.run_on(&context, PluginType::Ferroband, &call).unwrap();
    let at = |expected: FailPoint| {
        let observed = observed.borrow();
        let (_, text) = observed.iter().find(|(point, _)| *point == expected).unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    };
    assert_eq!(at(FailPoint::DaemonReplied)["daemon"], json!(true));
    assert_eq!(at(FailPoint::PluginExecuted)["entries"][0]["steps"][0]["state"], "intended");
    let made = at(FailPoint::InterfaceCreated);
    assert_eq!(made["entries"][1]["steps"][0]["state"], "intended");
    assert!(made["entries"][1]["steps"][0]["trace"]["temporary"].as_str().unwrap().starts_with("veth"));
    assert!(at(FailPoint::InterfaceMoved)["entries"][1]["steps"][0]["trace"]["addresses"][0].is_string());
}

// Case: cni 96
#[test]
fn del_with_a_damaged_journal_succeeds_and_releases_everything() {
    let (fixture, daemon, pod) = set_up();
    let path = fixture.root.state("journal").join("c1.json");
    let config =
        json!({"cniVersion": "0.3.1", "name": "ferroband", "delegates": [{"name": "cbr0", "type": "lease"}]});
    let run = |command| fixture.run(PluginType::Ferroband, command, ETH0, &pod.path, &config);
    run("ADD").unwrap();
    let whole = fs::read(&path).unwrap();
    let damages = (0..whole.len()).step_by(whole.len() / 23 + 1).map(|length| whole[..length].to_vec());
    let others = ["[]", "null", "5", "{\"schema\":99}", "\u{0}"].map(|text| text.as_bytes().to_vec());
    let mut newer: Value = serde_json::from_slice(&whole).unwrap();
    newer["schema"] = json!(2);
    for damage in damages.chain(others).chain([newer.to_string().into_bytes()]) {
        fs::write(&path, &damage).unwrap();
        pod.ip(&["link", "add", "eth0", "type", "veth", "peer", "name", "x"]);
        run("DEL").unwrap();
        assert!(!pod.link_names().contains(&"eth0".to_owned()));
        assert_eq!((daemon.held_containers(), fixture.journals()), (vec![], vec![]));
        assert_eq!(fixture.files(&fixture.path("leases")), [""; 0]);
        daemon.state.lock().unwrap().held.insert("c1".into());
        fs::write(fixture.path("leases").join("lease-c1-eth0"), "").unwrap();
    }
}

#[test]
fn del_finds_a_partially_created_interface_without_a_journal() {
    let (fixture, _daemon, pod) = set_up();
    // Kill once while the interface is in the host and once while it is in the pod.
    for expected in [FailPoint::InterfaceCreated, FailPoint::InterfaceMoved] {
        let watch = |point| {
            if point == expected {
                resume_unwind(Box::new("killed"));
            }
        };
        let context = CniContext { fail_point: &watch, ..fixture.context() };
        let call = fixture.call("ADD", "c1", "eth0", &pod.path, &config());
        catch_unwind(AssertUnwindSafe(|| fixture.run_on(&context, PluginType::Ferroband, &call)))
            .unwrap_err();
        fs::write(fixture.root.state("journal").join("c1.json"), "{").unwrap();
        fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
        fs::remove_file(fixture.path("leases").join("lease-c1-eth0")).unwrap();
        assert_eq!(pod.link_names(), [""; 0]);
        fixture.assert_clean();
    }
}

#[test]
fn add_fails_cleanly_when_the_journal_cannot_be_written() {
    let (fixture, daemon, pod) = set_up();
    // A file in place of the directory prevents its creation; file modes would not stop root.
    fs::create_dir_all(fixture.root.state("")).unwrap();
    fs::write(fixture.root.state("journal"), "").unwrap();
    let error = fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config()).unwrap_err();
    assert_eq!(error.code(), 5, "{error}");
    assert_eq!((daemon.take_requests(), fixture.take_log(), pod.link_names()), (vec![], vec![], vec![]));
}
