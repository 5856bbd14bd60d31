//! CHECK, STATUS, GC and uninstallation of the meta plugin.

use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::meta_plugin::{ETH0, config, foreign_attachment, set_up};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::{Error, PendingUninstall, PluginType};
use serde_json::{Value, json};
use std::fs;

fn newest(more: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "ferroband"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn run(fixture: &AttachFixture, command: &str, config: &Value) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, command, ("", ""), "", config)
}

// Case: cni 106
#[test]
fn check_verifies_every_network() {
    let (fixture, _daemon, pod) = set_up();
    let config = newest(json!({}));
    let check = || fixture.run(PluginType::Ferroband, "CHECK", ETH0, &pod.path, &config);
    assert_eq!(check().unwrap_err().code(), 3, "not attached yet");
    fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap();
    fixture.take_log();
    check().unwrap();
    assert_eq!(fixture.take_log(), ["CHECK lease eth0"]);
    pod.ip(&["address", "flush", "dev", "net1"]);
    let error = check().unwrap_err();
    assert!(
        error.to_string().contains("jarvice-ipoib") && error.to_string().contains("192.168.0.5"),
        "{error}"
    );
}

// Case: cni 101
#[test]
fn status_checks_the_daemon_and_the_wrapped_network() {
    let (fixture, mut daemon, _pod) = set_up();
    let config = newest(json!({"delegates": [{"cniVersion": "1.1.0", "name": "cbr0", "type": "lease"}]}));
    run(&fixture, "STATUS", &config).unwrap();
    assert_eq!(
        (daemon.take_requests(), fixture.take_log()),
        (vec!["Status"], vec!["STATUS lease ".to_owned()])
    );

    fixture.install_plugin("lease", r#"echo '{"code":51,"msg":"half","details":"broken"}'; exit 1"#);
    let error = run(&fixture, "STATUS", &config).unwrap_err();
    let received = ferroband_attach::protocol::error_reply(&error, ferroband_attach::CniVersion::V1_1_0);
    let received: Value = serde_json::from_str(&received).unwrap();
    assert_eq!(
        (&received["code"], &received["msg"], &received["details"]),
        (&json!(51), &json!("half"), &json!("broken"))
    );

    daemon.state.lock().unwrap().refuse_on = Some("Status");
    assert_eq!(run(&fixture, "STATUS", &newest(json!({}))).unwrap_err().code(), 50);
    daemon.stop();
    let error = run(&fixture, "STATUS", &newest(json!({}))).unwrap_err();
    assert_eq!((error.code(), error.fault().code.reason()), (50, "DaemonAway"));
}

// Case: cni 101
#[test]
fn add_and_status_fail_until_the_readiness_indicator_file_exists() {
    let (fixture, daemon, pod) = set_up();
    let config = newest(json!({"readinessindicatorfile": "/run/calico/ready"}));
    let error = fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap_err();
    assert!(error.code() == 11 && error.to_string().contains("run/calico/ready"), "{error}");
    let begun = std::time::Instant::now();
    assert_eq!(run(&fixture, "STATUS", &config).unwrap_err().code(), 50);
    assert!(begun.elapsed() < fixture.timeouts.daemon_connect, "must fail at once");
    fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    assert_eq!((daemon.take_requests(), fixture.take_log()), (vec![], vec![]));
    fixture.assert_clean();
    fs::create_dir_all(fixture.root.path("run/calico")).unwrap();
    fs::write(fixture.root.path("run/calico/ready"), "").unwrap();
    run(&fixture, "STATUS", &config).unwrap();
    fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap();
    fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    fixture.assert_clean();
}

fn attach(
    fixture: &AttachFixture,
    daemon: &ScriptedDaemon,
    container: &str,
    address: &str,
) -> PodNetnsFixture {
    let pod = PodNetnsFixture::new();
    daemon.state.lock().unwrap().assigned[0].ips[0].address = address.parse().unwrap();
    fixture.run(PluginType::Ferroband, "ADD", (container, "eth0"), &pod.path, &newest(json!({}))).unwrap();
    pod
}

// Case: cni 105
#[test]
fn gc_removes_everything_without_a_valid_attachment() {
    let (fixture, daemon, _pod) = set_up();
    daemon.state.lock().unwrap().attachments[0] =
        foreign_attachment("cbr0", "eth0", true, "1.1.0", json!([{"type": "lease"}]));
    let first = attach(&fixture, &daemon, "c1", "192.168.0.5/24");
    let second = attach(&fixture, &daemon, "c2", "192.168.0.6/24");
    let mut third = attach(&fixture, &daemon, "c3", "192.168.0.7/24");
    third.delete_netns();
    fs::write(fixture.root.state("journal").join("c4.json"), "{").unwrap();
    daemon.state.lock().unwrap().held.insert("c4".into());
    // An attachment of another network and plugin must not be collected.
    let other = json!({"cniVersion": "1.1.0", "name": "other", "master": "ib0"});
    fixture.run(PluginType::Ipoib, "ADD", ("c5", "net7"), &first.path, &other).unwrap();
    fixture.take_log();

    assert!(run(&fixture, "GC", &newest(json!({}))).is_err(), "a missing list is not an empty list");
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run(&fixture, "GC", &newest(json!({"cni.dev/valid-attachments": valid}))).unwrap();
    assert_eq!(
        (first.link_names(), second.link_names()),
        (vec!["net1".to_owned(), "net7".to_owned()], vec![])
    );
    assert_eq!(daemon.held_containers(), ["c1"]);
    assert_eq!(fixture.journals(), ["c1.json", "c5:net7:ipoib.json"]);
    assert_eq!(fixture.files(&fixture.path("leases")), ["lease-c1-eth0"]);
    let mut log = fixture.take_log();
    log.sort();
    assert_eq!(log, ["DEL lease eth0", "DEL lease eth0", "GC lease "]);
}

// Case: cni 105
#[test]
fn gc_is_forwarded_to_the_plugins_of_every_network() {
    let (fixture, daemon, _pod) = set_up();
    fixture.install_plugin(
        "other",
        "case $CNI_COMMAND in ADD) echo '{}';; GC) echo \"$IN\" > $LEASES/../gc;; esac",
    );
    let other = foreign_attachment("other", "net2", false, "1.1.0", json!([{"type": "other", "keep": 1}]));
    let old = foreign_attachment("old", "net3", false, "1.0.0", json!([{"type": "other"}]));
    daemon.state.lock().unwrap().attachments.extend([other, old]);
    let _first = attach(&fixture, &daemon, "c1", "192.168.0.5/24");
    let _second = attach(&fixture, &daemon, "c2", "192.168.0.6/24");
    fixture.take_log();
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run(&fixture, "GC", &newest(json!({"cni.dev/valid-attachments": valid}))).unwrap();
    let calls: Vec<_> = fixture.take_log().into_iter().filter(|line| line.starts_with("GC")).collect();
    assert_eq!(calls, ["GC other "], "once, and not for networks with an older CNI version");
    let received: Value = serde_json::from_slice(&fs::read(fixture.path("gc")).unwrap()).unwrap();
    assert_eq!((&received["name"], &received["keep"]), (&json!("other"), &json!(1)));
    assert_eq!(received["cni.dev/valid-attachments"], json!([{"containerID": "c1", "ifname": "net2"}]));
}

// Case: cni 105
#[test]
fn gc_continues_after_a_failure() {
    let (fixture, daemon, _pod) = set_up();
    let first = attach(&fixture, &daemon, "c1", "192.168.0.5/24");
    let second = attach(&fixture, &daemon, "c2", "192.168.0.6/24");
    fixture.install_plugin("lease", "[ $CNI_CONTAINERID = c1 ] && exit 1; rm -f $LEASES/*c2*; exit 0");
    assert!(run(&fixture, "GC", &newest(json!({"cni.dev/valid-attachments": []}))).is_err());
    assert_eq!((first.link_names(), second.link_names(), daemon.held_containers()), (vec![], vec![], vec![]));
    assert_eq!(fixture.journals(), ["c1.json"]);
}

#[test]
fn a_sandbox_from_before_the_installation_is_deleted_by_the_wrapped_network() {
    let (fixture, daemon, pod) = set_up();
    let mut config = config();
    config["delegates"] = json!([{"name": "cbr0", "plugins": [{"type": "lease"}, {"type": "second"}]}]);
    fixture.install_plugin("second", "exit 0");
    fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    assert_eq!(fixture.take_log(), ["DEL second eth0", "DEL lease eth0"]);
    assert_eq!((daemon.take_requests(), fixture.pending_releases()), (vec![], vec![]));
    fixture.assert_clean();
}

#[test]
fn during_uninstall_add_uses_the_wrapped_network_and_the_last_del_removes_the_files() {
    let (fixture, mut daemon, pod) = set_up();
    fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &newest(json!({}))).unwrap();
    daemon.stop();
    for file in ["etc/cni/net.d/00-ferroband.conflist", "opt/cni/bin/ferroband"] {
        fs::create_dir_all(fixture.root.path(file).parent().unwrap()).unwrap();
        fs::write(fixture.root.path(file), "").unwrap();
    }
    let files: Vec<_> =
        ["etc/cni/net.d/00-ferroband.conflist", "opt/cni/bin/ferroband"].map(Into::into).into();
    let pending = PendingUninstall { remove: files.clone(), restore: Vec::new() };
    assert!(!pending.begin(&fixture.root).unwrap(), "a pod is still attached");

    // A new pod must get the wrapped network without the daemon, with the runtime's capability arguments.
    let second = PodNetnsFixture::new();
    let script = "case $CNI_COMMAND in ADD) echo \"$IN\" > $LEASES/../in; echo '{\"ips\":[]}';; esac";
    fixture.install_plugin("wrapped", script);
    let plugin = json!({"type": "wrapped", "capabilities": {"portMappings": true}});
    let delegates = json!([{"cniVersion": "1.0.0", "name": "cbr0", "plugins": [plugin]}]);
    let ports = json!([{"hostPort": 80}]);
    let config = newest(json!({"delegates": delegates, "runtimeConfig": {"portMappings": ports}}));
    fixture.run(PluginType::Ferroband, "ADD", ("c2", "eth0"), &second.path, &config).unwrap();
    let received: Value = serde_json::from_slice(&fs::read(fixture.path("in")).unwrap()).unwrap();
    assert_eq!((&received["name"], &received["runtimeConfig"]["portMappings"]), (&json!("cbr0"), &ports));
    let error = fixture
        .run(PluginType::Ferroband, "ADD", ("c3", "eth0"), &second.path, &newest(json!({})))
        .unwrap_err();
    assert_eq!(error.code(), 7, "{error}");

    fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    assert!(files.iter().all(|file| fixture.root.path(file).exists()), "one attachment is left");
    fixture.run(PluginType::Ferroband, "DEL", ("c2", "eth0"), &second.path, &config).unwrap();
    assert!(!files.iter().any(|file| fixture.root.path(file).exists()));
    assert_eq!(PendingUninstall::load(&fixture.root).unwrap(), None);
    let left = [fixture.root.state(""), fixture.root.run("ferroband")].map(|folder| folder.exists());
    assert_eq!(left, [false, false], "state and locks are removed, too");
    assert_eq!(fixture.take_log().last().unwrap(), "DEL wrapped eth0");
    fixture.assert_clean();
}
