//! The meta plugin: default network first, then the others; undone in reverse.

use crate::daemon::{ScriptedDaemon, ScriptedDaemonState};
use crate::stage::{AttachFixture, PodNetnsFixture, host_ip, wait_until};
use ferroband_attach::message::DaemonRequest;
use ferroband_attach::plan::{
    AssignedAddresses, AssignedIp, AssignedRoute, Attachment, IpoibStep, PlanStep, StepKind,
};
use ferroband_attach::{CniContext, Error, PluginType};
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub const ETH0: (&str, &str) = ("c1", "eth0");

pub fn config() -> Value {
    json!({"cniVersion": "0.3.1", "name": "ferroband", "type": "ferroband"})
}

pub fn foreign_attachment(
    name: &str,
    ifname: &str,
    default: bool,
    version: &str,
    plugins: Value,
) -> Attachment {
    let step =
        |config: &Value| PlanStep { config: config.as_object().unwrap().clone(), kind: StepKind::Foreign };
    Attachment {
        network: name.into(),
        name: name.into(),
        cni_version: version.into(),
        ifname: ifname.into(),
        default,
        steps: plugins.as_array().unwrap().iter().map(step).collect(),
        ..Attachment::default()
    }
}

pub fn ipoib_attachment(ifname: &str) -> Attachment {
    let child = IpoibStep { parent: "ib0".into(), mtu: Some(1400), pkey: None };
    let config =
        json!({"type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts"}, "dns": {"domain": "d"}});
    Attachment {
        network: "default/jarvice-ipoib".into(),
        name: "jarvice-ipoib".into(),
        cni_version: "0.3.1".into(),
        ifname: ifname.into(),
        default: false,
        steps: vec![PlanStep {
            config: config.as_object().unwrap().clone(),
            kind: StepKind::Ipoib { child, daemon_ipam: true },
        }],
        ..Attachment::default()
    }
}

pub fn assigned_addresses(attachment: usize, address: &str) -> AssignedAddresses {
    AssignedAddresses {
        attachment,
        ips: vec![AssignedIp { address: address.parse().unwrap(), gateway: None }],
        routes: vec![AssignedRoute { dst: "172.30.0.0/16".parse().unwrap(), gw: None }],
        dns: None,
    }
}

/// A default network of one leasing script, and one IPoIB network.
pub fn daemon_state() -> ScriptedDaemonState {
    let default = foreign_attachment("cbr0", "eth0", true, "1.0.0", json!([{"type": "lease"}]));
    ScriptedDaemonState {
        attachments: vec![default, ipoib_attachment("net1")],
        assigned: vec![assigned_addresses(1, "192.168.0.5/24")],
        ..ScriptedDaemonState::default()
    }
}

pub fn set_up() -> (AttachFixture, ScriptedDaemon, PodNetnsFixture) {
    let stage = AttachFixture::new();
    stage.install_leasing_plugin("lease", "10.9.0.7/24");
    let daemon = ScriptedDaemon::start(&stage.root, daemon_state());
    (stage, daemon, PodNetnsFixture::new())
}

pub fn add(stage: &AttachFixture, pod: &PodNetnsFixture) -> Result<Value, Error> {
    stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config())
}

pub fn del(stage: &AttachFixture, netns: &str) -> Result<Value, Error> {
    stage.run(PluginType::Ferroband, "DEL", ETH0, netns, &config())
}

#[test]
fn the_first_pod_with_a_bridge_as_the_default_network() {
    if !["bridge", "host-local"].iter().all(|name| Path::new("/usr/lib/cni").join(name).exists()) {
        eprintln!("skipped: containernetworking-plugins is not installed");
        return;
    }
    let (stage, daemon, pod) = set_up();
    let leases = stage.path("leases");
    let bridge = json!([{
        "type": "bridge", "bridge": "cni0", "isGateway": true,
        "ipam": {"type": "host-local", "subnet": "10.7.0.0/24", "dataDir": leases},
    }]);
    daemon.state.lock().unwrap().attachments[0] = foreign_attachment("cbr0", "eth0", true, "0.4.0", bridge);

    let result = add(&stage, &pod).unwrap();
    assert_eq!((&result["cniVersion"], &result["ips"][0]["version"]), (&json!("0.3.1"), &json!("4")));
    assert_eq!(result["ips"][0]["address"], "10.7.0.2/24");
    assert_eq!(daemon.take_requests(), ["Add", "Addresses", "Attached"]);
    assert_eq!(daemon.state.lock().unwrap().netns, Some(pod.netns.as_ref().unwrap().id()));
    assert_eq!(pod.link_names(), ["eth0", "net1"]);
    assert_eq!(pod.addresses("eth0"), ["10.7.0.2/24"]);
    assert_eq!(pod.addresses("net1"), ["192.168.0.5/24"]);
    let net1 = pod.interface("net1");
    assert!(net1["flags"].as_array().unwrap().contains(&json!("UP")), "{net1}");
    assert_eq!(net1["mtu"], 1400);
    let routes = pod.ip(&["route", "show", "dev", "net1"]);
    assert!(routes.as_array().unwrap().iter().any(|route| route["dst"] == "172.30.0.0/16"), "{routes}");
    assert_eq!(stage.journals(), ["c1.json"]);

    let Some(DaemonRequest::Attached(outcomes)) = daemon.state.lock().unwrap().recorded.last().cloned()
    else {
        panic!("the last request should be Attached");
    };
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[0].result["ips"][0]["address"], "10.7.0.2/24");
    let expected = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "net1", "mac": net1["address"], "mtu": 1400, "sandbox": pod.path}],
        "ips": [{"address": "192.168.0.5/24", "interface": 0}],
        "routes": [{"dst": "172.30.0.0/16"}],
        "dns": {"domain": "d"},
    });
    assert_eq!(outcomes[1].result, expected);

    del(&stage, &pod.path).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Release"], vec![]));
    assert_eq!(pod.link_names(), [""; 0]);
    // host-local keeps its lock and its memory of the last address; the lease itself is gone.
    assert_eq!(stage.files(&leases.join("cbr0")), ["last_reserved_ip.0", "lock"]);
    std::fs::remove_dir_all(leases.join("cbr0")).unwrap();
    stage.assert_clean();
}

#[test]
fn case_93_the_third_network_fails_and_all_is_undone_in_reverse() {
    let (stage, daemon, pod) = set_up();
    stage.install_leasing_plugin("second", "10.9.0.8/24");
    stage.install_plugin(
        "third",
        r#"[ $CNI_COMMAND = ADD ] && { echo '{"code":100,"msg":"no luck"}'; exit 1; }; exit 0"#,
    );
    {
        let mut ledger = daemon.state.lock().unwrap();
        let chain = json!([{"type": "second"}, {"type": "third"}]);
        ledger.attachments.insert(1, foreign_attachment("ns/b", "net2", false, "1.0.0", chain));
    }
    let error = add(&stage, &pod).unwrap_err();
    let text = error.fault().to_string();
    assert!(
        text.contains("network ns/b") && text.contains("plugin third") && text.contains("no luck"),
        "{text}"
    );
    let log = [
        "ADD lease eth0",
        "ADD second net2",
        "ADD third net2",
        "DEL third net2",
        "DEL second net2",
        "DEL lease eth0",
    ];
    assert_eq!(stage.take_log(), log);
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Add", "Release"], vec![]));
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
    // What the runtime does next.
    del(&stage, &pod.path).unwrap();
    assert_eq!(stage.take_log(), [""; 0]);
}

#[test]
fn plugins_of_a_chain_see_the_result_before_them_and_del_sees_the_whole() {
    let (stage, daemon, pod) = set_up();
    stage.install_plugin(
        "echo",
        r#"[ $CNI_COMMAND = ADD ] && echo "$IN" > $LOG.add && echo "$IN" | sed 's/.*"prevResult":\({.*}\),"type".*/\1/'
           [ $CNI_COMMAND = DEL ] && echo "$IN" > $LOG.del; exit 0"#,
    );
    let chain = json!([{"type": "lease"}, {"type": "echo"}]);
    daemon.state.lock().unwrap().attachments[0] = foreign_attachment("cbr0", "eth0", true, "1.0.0", chain);
    add(&stage, &pod).unwrap();
    del(&stage, &pod.path).unwrap();
    for file in ["log.add", "log.del"] {
        let seen: Value = serde_json::from_slice(&std::fs::read(stage.path(file)).unwrap()).unwrap();
        assert_eq!(seen["prevResult"]["ips"][0]["address"], "10.9.0.7/24", "{file}");
        assert_eq!((&seen["name"], &seen["cniVersion"]), (&json!("cbr0"), &json!("1.0.0")));
    }
}

#[test]
fn case_97_a_foreign_del_that_fails_keeps_the_journal_and_only_it_is_tried_again() {
    let (stage, daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    stage.install_plugin("lease", "echo '{\"code\":999,\"msg\":\"stuck\"}'; exit 1");
    stage.take_log();
    let error = del(&stage, &pod.path).unwrap_err();
    assert!(error.to_string().contains("stuck"), "{error}");
    assert_eq!(pod.link_names(), [""; 0]);
    assert_eq!((stage.journals(), daemon.held_containers()), (vec!["c1.json".to_owned()], vec![]));

    stage.install_leasing_plugin("lease", "10.9.0.7/24");
    del(&stage, &pod.path).unwrap();
    assert_eq!(stage.take_log(), ["DEL lease eth0", "DEL lease eth0"]);
    stage.assert_clean();
}

#[test]
fn case_98_a_name_in_use_is_refused_and_left_alone() {
    let (stage, daemon, pod) = set_up();
    pod.ip(&["link", "add", "net1", "type", "veth", "peer", "name", "other"]);
    let before = pod.interface("net1")["address"].clone();
    let error = add(&stage, &pod).unwrap_err();
    assert!(error.fault().to_string().contains("net1"), "{}", error.fault());
    del(&stage, &pod.path).unwrap();
    assert_eq!(pod.interface("net1")["address"], before);
    assert_eq!(daemon.held_containers(), [""; 0]);
    stage.assert_clean();

    // Two networks that want the same name never start.
    daemon.state.lock().unwrap().attachments.push(ipoib_attachment("eth0"));
    stage.take_log();
    let error = add(&stage, &pod).unwrap_err();
    assert_eq!(error.fault().code.reason(), "NameTaken");
    assert_eq!(stage.take_log(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn case_102_the_result_is_the_default_networks_in_the_configurations_version() {
    let (stage, _daemon, pod) = set_up();
    let config = json!({"cniVersion": "0.2.0", "name": "ferroband"});
    let result = stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap();
    assert_eq!(
        result,
        json!({"cniVersion": "0.2.0", "dns": {}, "ip4": {"ip": "10.9.0.7/24", "gateway": "10.9.0.1"}})
    );
}

#[test]
fn del_without_the_daemon_owes_and_the_next_add_settles() {
    let (stage, mut daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    daemon.stop();
    del(&stage, &pod.path).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
    assert_eq!(
        (stage.pending_releases(), daemon.held_containers()),
        (vec!["c1.json".to_owned()], vec!["c1".to_owned()])
    );
    del(&stage, &pod.path).unwrap();

    let daemon = ScriptedDaemon::resume(&stage.root, daemon.state.clone());
    daemon.take_requests();
    add(&stage, &pod).unwrap();
    assert_eq!(daemon.take_requests(), ["Release", "Add", "Addresses", "Attached"]);
    assert_eq!(stage.pending_releases(), [""; 0]);
    del(&stage, &pod.path).unwrap();
    assert_eq!(daemon.held_containers(), [""; 0]);
}

#[test]
fn a_daemon_that_cannot_release_now_is_owed_it_too() {
    let (stage, daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    daemon.state.lock().unwrap().refuse_on = Some("Release");
    del(&stage, &pod.path).unwrap();
    assert_eq!(stage.pending_releases(), ["c1.json"]);
    stage.assert_clean();
}

#[test]
fn del_without_namespace_with_a_missing_path_and_twice() {
    for netns in ["unset", "missing"] {
        let (stage, daemon, mut pod) = set_up();
        add(&stage, &pod).unwrap();
        let path = pod.path.clone();
        pod.delete_netns();
        let told = if netns == "unset" { "" } else { path.as_str() };
        del(&stage, told).unwrap();
        del(&stage, told).unwrap();
        assert_eq!(daemon.held_containers(), [""; 0]);
        // The kernel takes the veth pair away with the namespace, in its own time.
        wait_until(|| host_ip(&["link", "show"]).as_array().unwrap().len() == 2);
        stage.assert_clean();
    }
}

#[test]
fn del_without_cni_netns_still_cleans_a_namespace_that_lives() {
    let (stage, _daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    del(&stage, "").unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn del_does_not_touch_another_namespace_at_the_same_path() {
    let (stage, _daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    let other = PodNetnsFixture::new();
    other.ip(&["link", "add", "net1", "type", "veth", "peer", "name", "x"]);
    stage.install_plugin("lease", "echo \"netns=$CNI_NETNS\" >> $LOG; rm -f $LEASES/*");
    stage.take_log();
    // The journal's own path is still good, so it is cleaned there.
    del(&stage, &other.path).unwrap();
    assert_eq!((pod.link_names(), other.link_names().len()), (vec![], 2));
    assert_eq!(stage.take_log(), ["DEL lease eth0".to_owned(), format!("netns={}", pod.path)]);
}

#[test]
fn after_a_reboot_nothing_in_a_namespace_is_touched() {
    let (stage, daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    let path = stage.root.state("journal").join("c1.json");
    let mut journal: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    journal["boot"] = json!("another");
    std::fs::write(&path, journal.to_string()).unwrap();
    stage.install_plugin("lease", "echo \"netns=$CNI_NETNS\" >> $LOG; rm -f $LEASES/*");
    stage.take_log();
    del(&stage, &pod.path).unwrap();
    assert_eq!(stage.take_log(), ["DEL lease eth0", "netns="]);
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec!["net1".to_owned()], vec![]));
    assert_eq!(stage.journals(), [""; 0]);
}

#[test]
fn a_sandbox_that_is_the_hosts_own_namespace_is_refused_before_anything_is_done() {
    let (stage, daemon, _pod) = set_up();
    let own = format!("/proc/{}/task/{}/ns/net", nix::unistd::getpid(), nix::unistd::gettid());
    for command in ["ADD", "DEL"] {
        let error = stage.run(PluginType::Ferroband, command, ETH0, &own, &config()).unwrap_err();
        assert_eq!(error.code(), 8, "{error}");
    }
    let error = stage.run(PluginType::Ferroband, "ADD", ETH0, "/nonexistent", &config()).unwrap_err();
    assert_eq!(error.code(), 8, "{error}");
    assert_eq!((daemon.take_requests(), stage.take_log()), (vec![], vec![]));
}

#[test]
fn a_daemon_that_is_away_means_try_again_later() {
    let (stage, mut daemon, pod) = set_up();
    daemon.stop();
    let error = add(&stage, &pod).unwrap_err();
    assert_eq!((error.code(), error.fault().code.reason()), (11, "DaemonAway"));
    assert_eq!((pod.link_names(), stage.take_log(), stage.pending_releases()), (vec![], vec![], vec![]));
    stage.assert_clean();
}

#[test]
fn a_daemon_that_is_restarting_is_waited_for() {
    let (mut stage, mut daemon, pod) = set_up();
    daemon.stop();
    stage.timeouts.daemon_connect = Duration::from_secs(5);
    let (root, ledger) = (stage.root.clone(), daemon.state.clone());
    let starting = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        ScriptedDaemon::resume(&root, ledger)
    });
    add(&stage, &pod).unwrap();
    assert_eq!(starting.join().unwrap().held_containers(), ["c1"]);
}

#[test]
fn a_daemon_that_dies_in_the_middle_leaves_nothing_but_a_debt_at_most() {
    for moment in ["Add", "Addresses", "Attached"] {
        let (stage, daemon, pod) = set_up();
        daemon.state.lock().unwrap().disconnect_on = Some(moment);
        let error = add(&stage, &pod).unwrap_err();
        assert_eq!(error.code(), 11, "{moment}: {error}");
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]), "{moment}");
        stage.assert_clean();
    }
}

#[test]
fn what_the_daemon_refuses_is_told_with_its_own_words() {
    for moment in ["Add", "Addresses", "Attached"] {
        let (stage, daemon, pod) = set_up();
        daemon.state.lock().unwrap().refuse_on = Some(moment);
        let error = add(&stage, &pod).unwrap_err();
        assert_eq!(error.fault().cause, "it refuses", "{moment}");
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]), "{moment}");
        stage.assert_clean();
    }
}

#[test]
fn a_second_add_of_an_attached_sandbox_is_refused_and_harmless() {
    let (stage, _daemon, pod) = set_up();
    add(&stage, &pod).unwrap();
    let error = add(&stage, &pod).unwrap_err();
    assert!(matches!(error, Error::AlreadyAttached { .. }), "{error}");
    assert_eq!(pod.addresses("net1"), ["192.168.0.5/24"]);
    // A new sandbox under the same identifier: the old one's leftovers go first.
    let next = PodNetnsFixture::new();
    add(&stage, &next).unwrap();
    assert_eq!(next.addresses("net1"), ["192.168.0.5/24"]);
    del(&stage, &next.path).unwrap();
    stage.assert_clean();
}

#[test]
fn an_asked_for_stop_undoes_what_was_done() {
    let (stage, daemon, pod) = set_up();
    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 1;
    let machine = CniContext { should_stop: &stop, ..stage.context() };
    let call = stage.call("ADD", "c1", "eth0", &pod.path, &config());
    let error = stage.run_on(&machine, PluginType::Ferroband, &call).unwrap_err();
    assert_eq!(error.code(), 11);
    assert_eq!(stage.take_log(), ["ADD lease eth0", "DEL lease eth0"]);
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    stage.assert_clean();
}

#[test]
fn ipv6_addresses_are_ready_when_add_returns() {
    let (stage, daemon, pod) = set_up();
    pod.netns
        .as_ref()
        .unwrap()
        .run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))
        .unwrap()
        .unwrap();
    {
        let mut ledger = daemon.state.lock().unwrap();
        ledger.assigned[0].ips.push(AssignedIp {
            address: "fd00:7::5/64".parse().unwrap(),
            gateway: Some("fd00:7::1".parse().unwrap()),
        });
        ledger.assigned[0].routes.push(AssignedRoute { dst: "fd00:8::/32".parse().unwrap(), gw: None });
    }
    host_ip(&["link", "set", "ib0", "up"]);
    add(&stage, &pod).unwrap();
    assert_eq!(pod.addresses("net1"), ["192.168.0.5/24", "fd00:7::5/64"]);
    let info = pod.interface("net1");
    let v6 = info["addr_info"].as_array().unwrap().iter().find(|info| info["local"] == "fd00:7::5").unwrap();
    assert!(v6.get("tentative").is_none(), "{v6}");
    let routes = pod.ip(&["-6", "route", "show", "dev", "net1"]);
    let route = routes.as_array().unwrap().iter().find(|route| route["dst"] == "fd00:8::/32");
    assert_eq!(route.map(|route| &route["gateway"]), Some(&json!("fd00:7::1")), "{routes}");
}
