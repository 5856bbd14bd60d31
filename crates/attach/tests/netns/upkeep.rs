//! CHECK, STATUS and GC of the meta plugin.

use crate::daemon::ScriptedDaemon;
use crate::meta::{ETH0, config, foreign_attachment, set_up};
use crate::stage::{AttachFixture, PodNetnsFixture};
use ferroband_attach::{Error, PendingUninstall, PluginType};
use serde_json::{Value, json};
use std::fs;

fn newest(more: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "ferroband"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn run(stage: &AttachFixture, command: &str, config: &Value) -> Result<Value, Error> {
    stage.run(PluginType::Ferroband, command, ("", ""), "", config)
}

#[test]
fn case_106_check_looks_at_every_network() {
    let (stage, _daemon, pod) = set_up();
    let config = newest(json!({}));
    let check = || stage.run(PluginType::Ferroband, "CHECK", ETH0, &pod.path, &config);
    assert_eq!(check().unwrap_err().code(), 3, "not attached yet");
    stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap();
    stage.take_log();
    check().unwrap();
    assert_eq!(stage.take_log(), ["CHECK lease eth0"]);
    pod.ip(&["address", "flush", "dev", "net1"]);
    let error = check().unwrap_err();
    assert!(
        error.to_string().contains("jarvice-ipoib") && error.to_string().contains("192.168.0.5"),
        "{error}"
    );
}

#[test]
fn case_101_status_asks_the_daemon_and_the_wrapped_network() {
    let (stage, mut daemon, _pod) = set_up();
    let config = newest(json!({"delegates": [{"cniVersion": "1.1.0", "name": "cbr0", "type": "lease"}]}));
    run(&stage, "STATUS", &config).unwrap();
    assert_eq!(
        (daemon.take_requests(), stage.take_log()),
        (vec!["Status"], vec!["STATUS lease ".to_owned()])
    );

    stage.install_plugin("lease", r#"echo '{"code":51,"msg":"half","details":"broken"}'; exit 1"#);
    let error = run(&stage, "STATUS", &config).unwrap_err();
    let told = ferroband_attach::protocol::error_reply(&error, ferroband_attach::CniVersion::V1_1_0);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["code"], &told["msg"], &told["details"]),
        (&json!(51), &json!("half"), &json!("broken"))
    );

    daemon.state.lock().unwrap().refuse_on = Some("Status");
    assert_eq!(run(&stage, "STATUS", &newest(json!({}))).unwrap_err().code(), 50);
    daemon.stop();
    let error = run(&stage, "STATUS", &newest(json!({}))).unwrap_err();
    assert_eq!((error.code(), error.fault().code.reason()), (50, "DaemonAway"));
}

#[test]
fn case_101_a_default_network_that_is_not_ready() {
    let (stage, daemon, pod) = set_up();
    let config = newest(json!({"readinessindicatorfile": "/run/calico/ready"}));
    let error = stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap_err();
    assert!(error.code() == 11 && error.to_string().contains("run/calico/ready"), "{error}");
    let begun = std::time::Instant::now();
    assert_eq!(run(&stage, "STATUS", &config).unwrap_err().code(), 50);
    assert!(begun.elapsed() < stage.timeouts.daemon_connect, "at once");
    stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    assert_eq!((daemon.take_requests(), stage.take_log()), (vec![], vec![]));
    stage.assert_clean();
    fs::create_dir_all(stage.root.path("run/calico")).unwrap();
    fs::write(stage.root.path("run/calico/ready"), "").unwrap();
    run(&stage, "STATUS", &config).unwrap();
    stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap();
    stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    stage.assert_clean();
}

fn attach(stage: &AttachFixture, daemon: &ScriptedDaemon, container: &str, address: &str) -> PodNetnsFixture {
    let pod = PodNetnsFixture::new();
    daemon.state.lock().unwrap().assigned[0].ips[0].address = address.parse().unwrap();
    stage.run(PluginType::Ferroband, "ADD", (container, "eth0"), &pod.path, &newest(json!({}))).unwrap();
    pod
}

#[test]
fn case_105_gc_removes_all_that_is_not_valid() {
    let (stage, daemon, _pod) = set_up();
    daemon.state.lock().unwrap().attachments[0] =
        foreign_attachment("cbr0", "eth0", true, "1.1.0", json!([{"type": "lease"}]));
    let first = attach(&stage, &daemon, "c1", "192.168.0.5/24");
    let second = attach(&stage, &daemon, "c2", "192.168.0.6/24");
    let mut third = attach(&stage, &daemon, "c3", "192.168.0.7/24");
    third.delete_netns();
    fs::write(stage.root.state("journal").join("c4.json"), "{").unwrap();
    daemon.state.lock().unwrap().held.insert("c4".into());
    // Another network's, and another role's: not this call's business.
    let other = json!({"cniVersion": "1.1.0", "name": "other", "master": "ib0"});
    stage.run(PluginType::Ipoib, "ADD", ("c5", "net7"), &first.path, &other).unwrap();
    stage.take_log();

    assert!(run(&stage, "GC", &newest(json!({}))).is_err(), "no list is not an empty list");
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run(&stage, "GC", &newest(json!({"cni.dev/valid-attachments": valid}))).unwrap();
    assert_eq!(
        (first.link_names(), second.link_names()),
        (vec!["net1".to_owned(), "net7".to_owned()], vec![])
    );
    assert_eq!(daemon.held_containers(), ["c1"]);
    assert_eq!(stage.journals(), ["c1.json", "c5:net7:ipoib.json"]);
    assert_eq!(stage.files(&stage.path("leases")), ["lease-c1-eth0"]);
    let mut log = stage.take_log();
    log.sort();
    assert_eq!(log, ["DEL lease eth0", "DEL lease eth0", "GC lease "]);
}

#[test]
fn case_105_gc_reaches_the_plugins_of_every_network() {
    let (stage, daemon, _pod) = set_up();
    stage.install_plugin(
        "other",
        "case $CNI_COMMAND in ADD) echo '{}';; GC) echo \"$IN\" > $LEASES/../gc;; esac",
    );
    let other = foreign_attachment("other", "net2", false, "1.1.0", json!([{"type": "other", "keep": 1}]));
    let old = foreign_attachment("old", "net3", false, "1.0.0", json!([{"type": "other"}]));
    daemon.state.lock().unwrap().attachments.extend([other, old]);
    let _first = attach(&stage, &daemon, "c1", "192.168.0.5/24");
    let _second = attach(&stage, &daemon, "c2", "192.168.0.6/24");
    stage.take_log();
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run(&stage, "GC", &newest(json!({"cni.dev/valid-attachments": valid}))).unwrap();
    let calls: Vec<_> = stage.take_log().into_iter().filter(|line| line.starts_with("GC")).collect();
    assert_eq!(calls, ["GC other "], "once, and not for networks older than the command");
    let told: Value = serde_json::from_slice(&fs::read(stage.path("gc")).unwrap()).unwrap();
    assert_eq!((&told["name"], &told["keep"]), (&json!("other"), &json!(1)));
    assert_eq!(told["cni.dev/valid-attachments"], json!([{"containerID": "c1", "ifname": "net2"}]));
}

#[test]
fn gc_goes_on_after_a_failure() {
    let (stage, daemon, _pod) = set_up();
    let first = attach(&stage, &daemon, "c1", "192.168.0.5/24");
    let second = attach(&stage, &daemon, "c2", "192.168.0.6/24");
    stage.install_plugin("lease", "[ $CNI_CONTAINERID = c1 ] && exit 1; rm -f $LEASES/*c2*; exit 0");
    assert!(run(&stage, "GC", &newest(json!({"cni.dev/valid-attachments": []}))).is_err());
    assert_eq!((first.link_names(), second.link_names(), daemon.held_containers()), (vec![], vec![], vec![]));
    assert_eq!(stage.journals(), ["c1.json"]);
}

#[test]
fn a_sandbox_from_before_we_came_is_deleted_by_the_wrapped_network() {
    let (stage, daemon, pod) = set_up();
    let mut config = config();
    config["delegates"] = json!([{"name": "cbr0", "plugins": [{"type": "lease"}, {"type": "second"}]}]);
    stage.install_plugin("second", "exit 0");
    stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    assert_eq!(stage.take_log(), ["DEL second eth0", "DEL lease eth0"]);
    assert_eq!((daemon.take_requests(), stage.pending_releases()), (vec![], vec![]));
    stage.assert_clean();
}

#[test]
fn a_node_that_is_left_serves_the_wrapped_network_and_the_last_del_removes_us() {
    let (stage, mut daemon, pod) = set_up();
    stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &newest(json!({}))).unwrap();
    daemon.stop();
    for file in ["etc/cni/net.d/00-ferroband.conflist", "opt/cni/bin/ferroband"] {
        fs::create_dir_all(stage.root.path(file).parent().unwrap()).unwrap();
        fs::write(stage.root.path(file), "").unwrap();
    }
    let files: Vec<_> =
        ["etc/cni/net.d/00-ferroband.conflist", "opt/cni/bin/ferroband"].map(Into::into).into();
    let leaving = PendingUninstall { remove: files.clone(), restore: Vec::new() };
    assert!(!leaving.begin(&stage.root).unwrap(), "a pod of ours is running");

    // A new pod gets the wrapped network without anybody's help, with what the runtime gives.
    let second = PodNetnsFixture::new();
    let seen = "case $CNI_COMMAND in ADD) echo \"$IN\" > $LEASES/../in; echo '{\"ips\":[]}';; esac";
    stage.install_plugin("wrapped", seen);
    let plugin = json!({"type": "wrapped", "capabilities": {"portMappings": true}});
    let delegates = json!([{"cniVersion": "1.0.0", "name": "cbr0", "plugins": [plugin]}]);
    let ports = json!([{"hostPort": 80}]);
    let config = newest(json!({"delegates": delegates, "runtimeConfig": {"portMappings": ports}}));
    stage.run(PluginType::Ferroband, "ADD", ("c2", "eth0"), &second.path, &config).unwrap();
    let told: Value = serde_json::from_slice(&fs::read(stage.path("in")).unwrap()).unwrap();
    assert_eq!((&told["name"], &told["runtimeConfig"]["portMappings"]), (&json!("cbr0"), &ports));
    let error = stage
        .run(PluginType::Ferroband, "ADD", ("c3", "eth0"), &second.path, &newest(json!({})))
        .unwrap_err();
    assert_eq!(error.code(), 7, "{error}");

    stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    assert!(files.iter().all(|file| stage.root.path(file).exists()), "one is left");
    stage.run(PluginType::Ferroband, "DEL", ("c2", "eth0"), &second.path, &config).unwrap();
    assert!(!files.iter().any(|file| stage.root.path(file).exists()));
    assert_eq!(PendingUninstall::load(&stage.root).unwrap(), None);
    assert_eq!(stage.take_log().last().unwrap(), "DEL wrapped eth0");
    stage.assert_clean();
}
