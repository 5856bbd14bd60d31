//! `kill -9` at every point, then DEL: nothing is left.

use crate::daemon::ScriptedDaemon;
use crate::meta::{ETH0, config, set_up};
use crate::stage::{AttachFixture, PodNetnsFixture};
use ferroband_attach::plan::{AttachmentDevice, DefaultRoute};
use ferroband_attach::{CniContext, Error, FailPoint, PluginType, device_info};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Do what passes points, and be killed at the `last`th. `None` if that was.
pub fn run_killed_at_point<T>(last: usize, call: impl FnOnce(&dyn Fn(FailPoint)) -> T) -> Option<T> {
    let passed = Cell::new(0);
    let watch = |_: FailPoint| {
        passed.set(passed.get() + 1);
        if passed.get() == last {
            // Without the message of a panic. Nothing of ours is undone by unwinding.
            resume_unwind(Box::new("killed"));
        }
    };
    catch_unwind(AssertUnwindSafe(|| call(&watch))).ok()
}

/// Make a call that is killed at its `last`th point. `None` if it was.
fn run_call_killed_at(
    stage: &AttachFixture,
    role: PluginType,
    command: &str,
    ifname: &str,
    netns: &str,
    config: &Value,
    last: usize,
) -> Option<Result<Value, Error>> {
    let call = stage.call(command, "c1", ifname, netns, config);
    run_killed_at_point(last, |watch| {
        stage.run_on(&CniContext { fail_point: watch, ..stage.context() }, role, &call)
    })
}

fn assert_gone(stage: &AttachFixture, daemon: &ScriptedDaemon, pod: &PodNetnsFixture, after: usize) {
    assert_eq!(pod.link_names(), [""; 0], "in the pod after a kill at point {after}");
    assert_eq!(daemon.held_containers(), [""; 0], "addresses after a kill at point {after}");
    let infos = stage.files(&stage.root.run("k8s.cni.cncf.io/devinfo/cni"));
    assert_eq!(infos, [""; 0], "device-info files after a kill at point {after}");
    stage.assert_clean();
}

/// Kill ADD at each point in turn, and DEL; returns how many points an ADD has.
fn kill_at_every_point(role: PluginType, ifname: &str, config: &Value) -> usize {
    kill_at_every_point_with(role, ifname, config, |_, _| {})
}

fn kill_at_every_point_with(
    role: PluginType,
    ifname: &str,
    config: &Value,
    prepare: impl FnOnce(&AttachFixture, &ScriptedDaemon),
) -> usize {
    let (stage, daemon, pod) = set_up();
    prepare(&stage, &daemon);
    daemon.state.lock().unwrap().assigned[0].attachment = usize::from(role.is_meta());
    let run = |command, last| run_call_killed_at(&stage, role, command, ifname, &pod.path, config, last);
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
        assert_gone(&stage, &daemon, &pod, points);
    }
    run("DEL", usize::MAX).unwrap().unwrap();

    for point in 1.. {
        run("ADD", usize::MAX).unwrap().unwrap();
        let done = run("DEL", point);
        let finished = done.is_some();
        run("DEL", usize::MAX).unwrap().unwrap();
        assert_gone(&stage, &daemon, &pod, point);
        if finished {
            assert!(point > 2, "DEL should have more than {point} points");
            break;
        }
    }
    points
}

#[test]
fn the_meta_plugin_killed_anywhere() {
    let points = kill_at_every_point(PluginType::Ferroband, "eth0", &config());
    // begin, plan, default network, interface (two writes, three changes), addresses, end
    assert!(points >= 11, "only {points} points");
}

#[test]
fn the_meta_plugin_with_a_device_and_a_default_route_killed_anywhere() {
    let plain = kill_at_every_point(PluginType::Ferroband, "eth0", &config());
    let points = kill_at_every_point_with(PluginType::Ferroband, "eth0", &config(), |stage, daemon| {
        let mut ledger = daemon.state.lock().unwrap();
        let network = &mut ledger.attachments[1];
        network.device = Some(AttachmentDevice { resource: "x/vf".into(), id: "d1".into() });
        network.default_routes.v4 = DefaultRoute::Via("192.168.0.1".parse().unwrap());
        let info = device_info::device_plugin_file(&stage.root, network.device.as_ref().unwrap());
        fs::create_dir_all(info.parent().unwrap()).unwrap();
        fs::write(info, "{}").unwrap();
    });
    assert!(points > plain, "{points} points, {plain} without");
}

#[test]
fn ipoib_killed_anywhere() {
    let ours = json!({"cniVersion": "1.0.0", "name": "n", "type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts"}});
    assert!(kill_at_every_point(PluginType::Ipoib, "net1", &ours) >= 8);
    let foreign = json!({"cniVersion": "1.0.0", "name": "n", "type": "ipoib", "master": "ib0", "ipam": {"type": "lease"}});
    assert!(kill_at_every_point(PluginType::Ipoib, "net1", &foreign) >= 9);
}

#[test]
fn whereabouts_killed_anywhere() {
    let config =
        json!({"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "ipam": {"type": "whereabouts"}});
    assert!(kill_at_every_point(PluginType::Whereabouts, "net1", &config) >= 2);
}

#[test]
fn an_add_that_was_killed_may_be_followed_by_another_add() {
    let (stage, daemon, pod) = set_up();
    for point in 1.. {
        let Some(done) =
            run_call_killed_at(&stage, PluginType::Ferroband, "ADD", "eth0", &pod.path, &config(), point)
        else {
            stage
                .run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config())
                .or_else(|error| match error {
                    // Killed after the last write: it is attached, and must be deleted first.
                    Error::AlreadyAttached { .. } => Ok(Value::Null),
                    error => Err(error),
                })
                .unwrap();
            stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
            assert_gone(&stage, &daemon, &pod, point);
            continue;
        };
        done.unwrap();
        break;
    }
}

#[test]
fn the_journal_is_ahead_of_every_change() {
    let (stage, _daemon, pod) = set_up();
    let seen = RefCell::new(Vec::new());
    let watch = |point: FailPoint| {
        let text = fs::read_to_string(stage.root.state("journal").join("c1.json")).unwrap_or_default();
        seen.borrow_mut().push((point, text));
    };
    let machine = CniContext { fail_point: &watch, ..stage.context() };
    let call = stage.call("ADD", "c1", "eth0", &pod.path, &config());
    stage.run_on(&machine, PluginType::Ferroband, &call).unwrap();
    let at = |wanted: FailPoint| {
        let seen = seen.borrow();
        let (_, text) = seen.iter().find(|(point, _)| *point == wanted).unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    };
    assert_eq!(at(FailPoint::DaemonReplied)["daemon"], json!(true));
    assert_eq!(at(FailPoint::PluginExecuted)["entries"][0]["steps"][0]["state"], "intended");
    let made = at(FailPoint::InterfaceCreated);
    assert_eq!(made["entries"][1]["steps"][0]["state"], "intended");
    assert!(made["entries"][1]["steps"][0]["trace"]["temporary"].as_str().unwrap().starts_with("veth"));
    assert!(at(FailPoint::InterfaceMoved)["entries"][1]["steps"][0]["trace"]["addresses"][0].is_string());
}

#[test]
fn case_96_a_damaged_journal_never_panics_and_frees_what_can_be_known() {
    let (stage, daemon, pod) = set_up();
    let path = stage.root.state("journal").join("c1.json");
    let config =
        json!({"cniVersion": "0.3.1", "name": "ferroband", "delegates": [{"name": "cbr0", "type": "lease"}]});
    let run = |command| stage.run(PluginType::Ferroband, command, ETH0, &pod.path, &config);
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
        assert_eq!((daemon.held_containers(), stage.journals()), (vec![], vec![]));
        assert_eq!(stage.files(&stage.path("leases")), [""; 0]);
        daemon.state.lock().unwrap().held.insert("c1".into());
        fs::write(stage.path("leases").join("lease-c1-eth0"), "").unwrap();
    }
}

#[test]
fn a_half_made_interface_is_found_without_its_journal() {
    let (stage, _daemon, pod) = set_up();
    // Find the point at which the interface is in the host, and the one at which it is in the pod.
    for wanted in [FailPoint::InterfaceCreated, FailPoint::InterfaceMoved] {
        let watch = |point| {
            if point == wanted {
                resume_unwind(Box::new("killed"));
            }
        };
        let machine = CniContext { fail_point: &watch, ..stage.context() };
        let call = stage.call("ADD", "c1", "eth0", &pod.path, &config());
        catch_unwind(AssertUnwindSafe(|| stage.run_on(&machine, PluginType::Ferroband, &call))).unwrap_err();
        fs::write(stage.root.state("journal").join("c1.json"), "{").unwrap();
        stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
        fs::remove_file(stage.path("leases").join("lease-c1-eth0")).unwrap();
        assert_eq!(pod.link_names(), [""; 0]);
        stage.assert_clean();
    }
}

#[test]
fn a_full_disk_stops_an_add_without_a_trace() {
    let (stage, daemon, pod) = set_up();
    // No folder can be made where a file is; root is not stopped by modes.
    fs::create_dir_all(stage.root.state("")).unwrap();
    fs::write(stage.root.state("journal"), "").unwrap();
    let error = stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config()).unwrap_err();
    assert_eq!(error.code(), 5, "{error}");
    assert_eq!((daemon.take_requests(), stage.take_log(), pod.link_names()), (vec![], vec![], vec![]));
}
