//! The meta plugin: attaches the default network first, then the others, and detaches in reverse order.

use crate::fixture::{AttachFixture, PodNetnsFixture, host_ip, wait_until};
use crate::scripted_daemon::{ScriptedDaemon, ScriptedDaemonState};
use ferroband_attach::message::DaemonRequest;
use ferroband_attach::plan::{AssignedAddresses, AssignedIp, AssignedRoute, Attachment, PlanStep, StepKind};
use ferroband_attach::{CniContext, Error, PluginType};
use ferroband_config::IpoibConfig;
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
    let child = IpoibConfig { parent: "ib0".into(), mtu: Some(1400), ..IpoibConfig::default() };
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

/// A plan with a default network, whose only plugin is a leasing script, and one IPoIB network.
pub fn daemon_state() -> ScriptedDaemonState {
    let default = foreign_attachment("cbr0", "eth0", true, "1.0.0", json!([{"type": "lease"}]));
    ScriptedDaemonState {
        attachments: vec![default, ipoib_attachment("net1")],
        assigned: vec![assigned_addresses(1, "192.168.0.5/24")],
        ..ScriptedDaemonState::default()
    }
}

pub fn set_up() -> (AttachFixture, ScriptedDaemon, PodNetnsFixture) {
    let fixture = AttachFixture::new();
    fixture.install_leasing_plugin("lease", "10.9.0.7/24");
    let daemon = ScriptedDaemon::start(&fixture.root, daemon_state());
    (fixture, daemon, PodNetnsFixture::new())
}

pub fn add(fixture: &AttachFixture, pod: &PodNetnsFixture) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config())
}

pub fn del(fixture: &AttachFixture, netns: &str) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, "DEL", ETH0, netns, &config())
}

#[test]
fn a_pod_with_a_bridge_default_network_and_ipoib_is_attached_and_deleted() {
    if !["bridge", "host-local"].iter().all(|name| Path::new("/usr/lib/cni").join(name).exists()) {
        eprintln!("skipped: containernetworking-plugins is not installed");
        return;
    }
    let (fixture, daemon, pod) = set_up();
    let leases = fixture.path("leases");
    let bridge = json!([{
        "type": "bridge", "bridge": "cni0", "isGateway": true,
        "ipam": {"type": "host-local", "subnet": "10.7.0.0/24", "dataDir": leases},
    }]);
    daemon.state.lock().unwrap().attachments[0] = foreign_attachment("cbr0", "eth0", true, "0.4.0", bridge);

    let result = add(&fixture, &pod).unwrap();
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
    assert_eq!(fixture.journals(), ["c1.json"]);

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

    del(&fixture, &pod.path).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Release"], vec![]));
    assert_eq!(pod.link_names(), [""; 0]);
    // host-local keeps its lock file and its last reserved address; the lease itself must be gone.
    assert_eq!(fixture.files(&leases.join("cbr0")), ["last_reserved_ip.0", "lock"]);
    std::fs::remove_dir_all(leases.join("cbr0")).unwrap();
    fixture.assert_clean();
}

// Case: cni 93
#[test]
fn a_failing_plugin_rolls_back_all_networks_in_reverse_order() {
    let (fixture, daemon, pod) = set_up();
    fixture.install_leasing_plugin("second", "10.9.0.8/24");
    fixture.install_plugin(
        "third",
        r#"[ $CNI_COMMAND = ADD ] && { echo '{"code":100,"msg":"no luck"}'; exit 1; }; exit 0"#,
    );
    {
        let mut state = daemon.state.lock().unwrap();
        let chain = json!([{"type": "second"}, {"type": "third"}]);
        state.attachments.insert(1, foreign_attachment("ns/b", "net2", false, "1.0.0", chain));
    }
    let error = add(&fixture, &pod).unwrap_err();
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
    assert_eq!(fixture.take_log(), log);
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Add", "Release"], vec![]));
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
    // The runtime sends a DEL after a failed ADD. It must not call any plugin again.
    del(&fixture, &pod.path).unwrap();
    assert_eq!(fixture.take_log(), [""; 0]);
}

#[test]
fn chained_plugins_get_prev_result_on_add_and_del() {
    let (fixture, daemon, pod) = set_up();
    fixture.install_plugin(
        "echo",
        r#"[ $CNI_COMMAND = ADD ] && echo "$IN" > $LOG.add && echo "$IN" | sed 's/.*"prevResult":\({.*}\),"type".*/\1/'
           [ $CNI_COMMAND = DEL ] && echo "$IN" > $LOG.del; exit 0"#,
    );
    let chain = json!([{"type": "lease"}, {"type": "echo"}]);
    daemon.state.lock().unwrap().attachments[0] = foreign_attachment("cbr0", "eth0", true, "1.0.0", chain);
    add(&fixture, &pod).unwrap();
    del(&fixture, &pod.path).unwrap();
    for file in ["log.add", "log.del"] {
        let stdin: Value = serde_json::from_slice(&std::fs::read(fixture.path(file)).unwrap()).unwrap();
        assert_eq!(stdin["prevResult"]["ips"][0]["address"], "10.9.0.7/24", "{file}");
        assert_eq!((&stdin["name"], &stdin["cniVersion"]), (&json!("cbr0"), &json!("1.0.0")));
    }
}

// Case: cni 97
#[test]
fn a_failed_foreign_del_keeps_the_journal_and_is_retried_alone() {
    let (fixture, daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    fixture.install_plugin("lease", "echo '{\"code\":999,\"msg\":\"stuck\"}'; exit 1");
    fixture.take_log();
    let error = del(&fixture, &pod.path).unwrap_err();
    assert!(error.to_string().contains("stuck"), "{error}");
    assert_eq!(pod.link_names(), [""; 0]);
    assert_eq!((fixture.journals(), daemon.held_containers()), (vec!["c1.json".to_owned()], vec![]));

    fixture.install_leasing_plugin("lease", "10.9.0.7/24");
    del(&fixture, &pod.path).unwrap();
    assert_eq!(fixture.take_log(), ["DEL lease eth0", "DEL lease eth0"]);
    fixture.assert_clean();
}

// Case: cni 98
#[test]
fn add_fails_when_the_interface_name_is_taken_and_keeps_that_interface() {
    let (fixture, daemon, pod) = set_up();
    pod.ip(&["link", "add", "net1", "type", "veth", "peer", "name", "other"]);
    let before = pod.interface("net1")["address"].clone();
    let error = add(&fixture, &pod).unwrap_err();
    assert!(error.fault().to_string().contains("net1"), "{}", error.fault());
    del(&fixture, &pod.path).unwrap();
    assert_eq!(pod.interface("net1")["address"], before);
    assert_eq!(daemon.held_containers(), [""; 0]);
    fixture.assert_clean();

    // Two networks with the same interface name must be rejected before any plugin runs.
    daemon.state.lock().unwrap().attachments.push(ipoib_attachment("eth0"));
    fixture.take_log();
    let error = add(&fixture, &pod).unwrap_err();
    assert_eq!(error.fault().code.reason(), "NameTaken");
    assert_eq!(fixture.take_log(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 102
#[test]
fn the_result_is_the_default_networks_in_the_configured_version() {
    let (fixture, _daemon, pod) = set_up();
    let config = json!({"cniVersion": "0.2.0", "name": "ferroband"});
    let result = fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config).unwrap();
    assert_eq!(
        result,
        json!({"cniVersion": "0.2.0", "dns": {}, "ip4": {"ip": "10.9.0.7/24", "gateway": "10.9.0.1"}})
    );
}

#[test]
fn del_without_the_daemon_queues_the_release_and_the_next_add_sends_it() {
    let (fixture, mut daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    daemon.stop();
    del(&fixture, &pod.path).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
    assert_eq!(
        (fixture.pending_releases(), daemon.held_containers()),
        (vec!["c1.json".to_owned()], vec!["c1".to_owned()])
    );
    del(&fixture, &pod.path).unwrap();

    let daemon = ScriptedDaemon::resume(&fixture.root, daemon.state.clone());
    daemon.take_requests();
    add(&fixture, &pod).unwrap();
    assert_eq!(daemon.take_requests(), ["Release", "Add", "Addresses", "Attached"]);
    assert_eq!(fixture.pending_releases(), [""; 0]);
    del(&fixture, &pod.path).unwrap();
    assert_eq!(daemon.held_containers(), [""; 0]);
}

#[test]
fn a_release_that_the_daemon_refuses_is_queued() {
    let (fixture, daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    daemon.state.lock().unwrap().refuse_on = Some("Release");
    del(&fixture, &pod.path).unwrap();
    assert_eq!(fixture.pending_releases(), ["c1.json"]);
    fixture.assert_clean();
}

#[test]
fn del_succeeds_twice_without_a_namespace() {
    for netns in ["unset", "missing"] {
        let (fixture, daemon, mut pod) = set_up();
        add(&fixture, &pod).unwrap();
        let path = pod.path.clone();
        pod.delete_netns();
        let cni_netns = if netns == "unset" { "" } else { path.as_str() };
        del(&fixture, cni_netns).unwrap();
        del(&fixture, cni_netns).unwrap();
        assert_eq!(daemon.held_containers(), [""; 0]);
        // The kernel deletes the veth pair with the namespace, asynchronously.
        wait_until(|| host_ip(&["link", "show"]).as_array().unwrap().len() == 2);
        fixture.assert_clean();
    }
}

#[test]
fn del_without_cni_netns_cleans_an_existing_namespace() {
    let (fixture, _daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    del(&fixture, "").unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

#[test]
fn del_does_not_touch_another_namespace_at_the_same_path() {
    let (fixture, _daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    let other = PodNetnsFixture::new();
    other.ip(&["link", "add", "net1", "type", "veth", "peer", "name", "x"]);
    fixture.install_plugin("lease", "echo \"netns=$CNI_NETNS\" >> $LOG; rm -f $LEASES/*");
    fixture.take_log();
    // DEL gets the path of another namespace. The journal's path still leads to the pod's namespace, so DEL
    // must clean that one.
    del(&fixture, &other.path).unwrap();
    assert_eq!((pod.link_names(), other.link_names().len()), (vec![], 2));
    assert_eq!(fixture.take_log(), ["DEL lease eth0".to_owned(), format!("netns={}", pod.path)]);
}

#[test]
fn del_after_a_reboot_does_not_touch_any_namespace() {
    let (fixture, daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    let path = fixture.root.state("journal").join("c1.json");
    let mut journal: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    journal["boot"] = json!("another");
    std::fs::write(&path, journal.to_string()).unwrap();
    fixture.install_plugin("lease", "echo \"netns=$CNI_NETNS\" >> $LOG; rm -f $LEASES/*");
    fixture.take_log();
    del(&fixture, &pod.path).unwrap();
    assert_eq!(fixture.take_log(), ["DEL lease eth0", "netns="]);
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec!["net1".to_owned()], vec![]));
    assert_eq!(fixture.journals(), [""; 0]);
}

#[test]
fn the_hosts_own_namespace_is_rejected_before_any_change() {
    let (fixture, daemon, _pod) = set_up();
    let own = format!("/proc/{}/task/{}/ns/net", nix::unistd::getpid(), nix::unistd::gettid());
    for command in ["ADD", "DEL"] {
        let error = fixture.run(PluginType::Ferroband, command, ETH0, &own, &config()).unwrap_err();
        assert_eq!(error.code(), 8, "{error}");
    }
    let error = fixture.run(PluginType::Ferroband, "ADD", ETH0, "/nonexistent", &config()).unwrap_err();
    assert_eq!(error.code(), 8, "{error}");
    assert_eq!((daemon.take_requests(), fixture.take_log()), (vec![], vec![]));
}

#[test]
fn add_returns_try_again_later_when_the_daemon_is_unavailable() {
    let (fixture, mut daemon, pod) = set_up();
    daemon.stop();
    let error = add(&fixture, &pod).unwrap_err();
    assert_eq!((error.code(), error.fault().code.reason()), (11, "DaemonAway"));
    assert_eq!((pod.link_names(), fixture.take_log(), fixture.pending_releases()), (vec![], vec![], vec![]));
    fixture.assert_clean();
}

#[test]
fn add_waits_for_a_restarting_daemon() {
    let (mut fixture, mut daemon, pod) = set_up();
    daemon.stop();
    fixture.timeouts.daemon_connect = Duration::from_secs(5);
    let (root, state) = (fixture.root.clone(), daemon.state.clone());
    let starting = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        ScriptedDaemon::resume(&root, state)
    });
    add(&fixture, &pod).unwrap();
    assert_eq!(starting.join().unwrap().held_containers(), ["c1"]);
}

#[test]
fn add_rolls_back_when_the_daemon_disconnects_at_any_request() {
    for moment in ["Add", "Addresses", "Attached"] {
        let (fixture, daemon, pod) = set_up();
        daemon.state.lock().unwrap().disconnect_on = Some(moment);
        let error = add(&fixture, &pod).unwrap_err();
        assert_eq!(error.code(), 11, "{moment}: {error}");
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]), "{moment}");
        fixture.assert_clean();
    }
}

#[test]
fn the_daemons_error_is_reported_unchanged() {
    for moment in ["Add", "Addresses", "Attached"] {
        let (fixture, daemon, pod) = set_up();
        daemon.state.lock().unwrap().refuse_on = Some(moment);
        let error = add(&fixture, &pod).unwrap_err();
        assert_eq!(error.fault().cause, "request refused", "{moment}");
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]), "{moment}");
        fixture.assert_clean();
    }
}

#[test]
fn a_second_add_of_an_attached_sandbox_is_rejected_without_changes() {
    let (fixture, _daemon, pod) = set_up();
    add(&fixture, &pod).unwrap();
    let error = add(&fixture, &pod).unwrap_err();
    assert!(matches!(error, Error::AlreadyAttached { .. }), "{error}");
    assert_eq!(pod.addresses("net1"), ["192.168.0.5/24"]);
    // A new namespace with the same container ID: ADD must remove the old attachment first.
    let next = PodNetnsFixture::new();
    add(&fixture, &next).unwrap();
    assert_eq!(next.addresses("net1"), ["192.168.0.5/24"]);
    del(&fixture, &next.path).unwrap();
    fixture.assert_clean();
}

#[test]
fn a_termination_signal_rolls_back_the_add() {
    let (fixture, daemon, pod) = set_up();
    let checks = Cell::new(0);
    let stop = || checks.replace(checks.get() + 1) == 1;
    let context = CniContext { should_stop: &stop, ..fixture.context() };
    let call = fixture.call("ADD", "c1", "eth0", &pod.path, &config());
    let error = fixture.run_on(&context, PluginType::Ferroband, &call).unwrap_err();
    assert_eq!(error.code(), 11);
    assert_eq!(fixture.take_log(), ["ADD lease eth0", "DEL lease eth0"]);
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    fixture.assert_clean();
}

#[test]
fn ipv6_addresses_are_not_tentative_when_add_returns() {
    let (fixture, daemon, pod) = set_up();
    pod.netns
        .as_ref()
        .unwrap()
        .run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))
        .unwrap()
        .unwrap();
    {
        let mut state = daemon.state.lock().unwrap();
        state.assigned[0].ips.push(AssignedIp {
            address: "fd00:7::5/64".parse().unwrap(),
            gateway: Some("fd00:7::1".parse().unwrap()),
        });
        state.assigned[0].routes.push(AssignedRoute { dst: "fd00:8::/32".parse().unwrap(), gw: None });
    }
    host_ip(&["link", "set", "ib0", "up"]);
    add(&fixture, &pod).unwrap();
    assert_eq!(pod.addresses("net1"), ["192.168.0.5/24", "fd00:7::5/64"]);
    let info = pod.interface("net1");
    let v6 = info["addr_info"].as_array().unwrap().iter().find(|info| info["local"] == "fd00:7::5").unwrap();
    assert!(v6.get("tentative").is_none(), "{v6}");
    let routes = pod.ip(&["-6", "route", "show", "dev", "net1"]);
    let route = routes.as_array().unwrap().iter().find(|route| route["dst"] == "fd00:8::/32");
    assert_eq!(route.map(|route| &route["gateway"]), Some(&json!("fd00:7::1")), "{routes}");
}
