//! The `coordinator` plugin: a pod with an InfiniBand default network reaches the node, services and other pods, and is
//! reachable from them.

use crate::crash::run_killed_at_point;
use crate::fixture::{AttachFixture, PodNetnsFixture, host_ip};
use crate::meta_plugin::{ETH0, add, assigned_addresses, config, del, ipoib_attachment};
use crate::scripted_daemon::{ScriptedDaemon, ScriptedDaemonState};
use ferroband_attach::plan::{Attachment, PlanStep, StepKind};
use ferroband_attach::{CniContext, FailPoint, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

pub const POD: &str = "172.91.0.7";

pub fn coordinator_step(more: Value) -> PlanStep {
    let mut config = json!({"type": "coordinator", "serviceCIDR": ["10.96.0.0/16"], "overlayPodCIDR": ["10.78.0.0/16"],
        "hijackCIDR": ["169.254.0.0/16"]});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = config.as_object().unwrap().clone();
    PlanStep { kind: StepKind::from_config(&config).unwrap(), config }
}

pub fn with_coordinator(ifname: &str, more: Value) -> Attachment {
    let mut attachment = ipoib_attachment(ifname);
    attachment.steps.push(coordinator_step(more));
    attachment.default = ifname == "eth0";
    attachment
}

/// Set up a node with the bridge `cni0`, a daemon, a pod to attach, and another pod on the cluster network.
pub fn set_up(
    attachments: Vec<Attachment>,
    addresses: &[&str],
) -> (AttachFixture, ScriptedDaemon, PodNetnsFixture, PodNetnsFixture) {
    let fixture = AttachFixture::new();
    fixture.install_leasing_plugin("lease", "10.9.0.7/24");
    host_ip(&["link", "set", "dev", "lo", "up"]);
    host_ip(&["link", "add", "cni0", "type", "bridge"]);
    host_ip(&["address", "add", "10.78.1.1/24", "dev", "cni0"]);
    host_ip(&["link", "set", "dev", "cni0", "up"]);
    fs::write("/proc/thread-self/net/../sys/net/ipv4/ip_forward", "1")
        .or_else(|_| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
        .unwrap();
    let other = PodNetnsFixture::new();
    host_ip(&["link", "add", "other", "type", "veth", "peer", "name", "eth0", "netns", &other.path]);
    host_ip(&["link", "set", "dev", "other", "master", "cni0", "up"]);
    other.ip(&["address", "add", "10.78.1.2/24", "dev", "eth0"]);
    other.ip(&["link", "set", "dev", "eth0", "up"]);
    other.ip(&["route", "add", "default", "via", "10.78.1.1"]);
    let assigned =
        addresses.iter().enumerate().map(|(position, address)| assigned_addresses(position, address));
    let state =
        ScriptedDaemonState { attachments, assigned: assigned.collect(), ..ScriptedDaemonState::default() };
    let daemon = ScriptedDaemon::start(&fixture.root, state);
    (fixture, daemon, PodNetnsFixture::new(), other)
}

pub fn reaches(from: Option<&PodNetnsFixture>, to: &str) -> bool {
    let ping = || Command::new("ping").args(["-c", "1", "-W", "2", "-q", to]).output().unwrap();
    let output = match from {
        Some(pod) => pod.netns.as_ref().unwrap().run(ping).unwrap(),
        None => ping(),
    };
    output.status.success()
}

/// Delete the other pod's veth, then assert that nothing else is left.
pub fn assert_clean(fixture: &AttachFixture) {
    host_ip(&["link", "delete", "dev", "other"]);
    fixture.assert_clean();
}

#[test]
fn a_pod_on_infiniband_reaches_the_node_and_other_pods_and_is_reachable() {
    let attachment = with_coordinator("eth0", json!({"txQueueLen": 77}));
    let (fixture, daemon, pod, other) = set_up(vec![attachment], &["172.91.0.7/16"]);
    let before = (host_ip(&["rule"]), host_ip(&["-4", "route", "show", "table", "all"]));
    add(&fixture, &pod).unwrap();
    assert_eq!(pod.link_names(), ["eth0", "veth0"]);
    assert_eq!(pod.interface("eth0")["txqlen"], 77);
    assert!(reaches(None, POD), "a kubelet probe");
    assert!(reaches(Some(&other), POD), "a pod on the cluster network");
    assert!(reaches(Some(&pod), "10.78.1.1") && reaches(Some(&pod), "10.78.1.2"));
    // Service traffic must go to the node, where kube-proxy runs, with the pod's address as source.
    let route = pod.ip(&["route", "get", "10.96.0.1"]);
    assert_eq!((&route[0]["dev"], &route[0]["prefsrc"]), (&json!("veth0"), &json!(POD)), "{route}");
    let elsewhere = pod.ip(&["route", "get", "172.91.9.9"]);
    assert_eq!(elsewhere[0]["dev"], "eth0", "{elsewhere}");
    let rules = host_ip(&["rule"]);
    assert!(
        rules.as_array().unwrap().iter().any(|r| r["priority"] == 1000 && r["table"] == "500"),
        "{rules}"
    );
    fixture
        .run(
            PluginType::Ferroband,
            "CHECK",
            ETH0,
            &pod.path,
            &json!({"cniVersion": "0.4.0", "name": "ferroband"}),
        )
        .unwrap();
    del(&fixture, &pod.path).unwrap();
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    assert_eq!((host_ip(&["rule"]), host_ip(&["-4", "route", "show", "table", "all"])), before);
    assert_clean(&fixture);
}

// Case: ipam M16
#[test]
fn connections_from_unconfigured_subnets_are_answered_through_the_veth() {
    let unnamed = json!({"serviceCIDR": [], "overlayPodCIDR": [], "hijackCIDR": []});
    let (fixture, _daemon, pod, other) = set_up(vec![with_coordinator("eth0", unnamed)], &["172.91.0.7/16"]);
    add(&fixture, &pod).unwrap();
    assert!(reaches(Some(&other), POD));
    // With a default gateway on the fabric, replies must still go through the veth.
    pod.ip(&["route", "add", "default", "via", "172.91.0.1", "dev", "eth0"]);
    assert!(!reaches(Some(&pod), "10.78.1.2"), "the fabric's gateway gets this packet");
    assert!(reaches(Some(&other), POD), "a reply goes through the veth");
    // After DEL and a second ADD, as the runtime sends after a failure, the pod must be reachable again.
    del(&fixture, &pod.path).unwrap();
    add(&fixture, &pod).unwrap();
    assert!(reaches(Some(&other), POD));
    del(&fixture, &pod.path).unwrap();
    assert_clean(&fixture);
}

// Case: ipam M25
#[test]
fn del_of_the_last_pod_removes_the_host_rule() {
    let (fixture, daemon, pod, _other) =
        set_up(vec![with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    let second = PodNetnsFixture::new();
    let c2 = ("c2", "eth0");
    add(&fixture, &pod).unwrap();
    daemon.state.lock().unwrap().assigned = vec![assigned_addresses(0, "172.91.0.8/16")];
    fixture.run(PluginType::Ferroband, "ADD", c2, &second.path, &config()).unwrap();
    assert!(reaches(None, POD) && reaches(None, "172.91.0.8"));
    del(&fixture, &pod.path).unwrap();
    assert!(!reaches(None, POD) && reaches(None, "172.91.0.8"));
    fixture.run(PluginType::Ferroband, "DEL", c2, &second.path, &config()).unwrap();
    assert_clean(&fixture);
}

#[test]
fn in_overlay_mode_an_additional_interface_answers_through_itself() {
    let first =
        crate::meta_plugin::foreign_attachment("k8s", "eth0", true, "1.0.0", json!([{"type": "ether"}]));
    let (fixture, daemon, pod, _other) = set_up(vec![first, with_coordinator("net1", json!({}))], &[]);
    daemon.state.lock().unwrap().assigned = vec![assigned_addresses(1, "192.168.0.5/24")];
    let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.78.1.9/24"}]});
    fixture.install_plugin(
        "ether",
        &format!(
            "pod() {{ nsenter --net=$CNI_NETNS ip \"$@\"; }}\ncase $CNI_COMMAND in ADD) pod link add eth0 type veth peer name eth0p; \
             pod address add 10.78.1.9/24 dev eth0; pod link set eth0p up; pod link set eth0 up; \
             pod route add default via 10.78.1.1; echo '{result}';; DEL) pod link delete eth0;; esac"
        ),
    );
    add(&fixture, &pod).unwrap();
    assert!(!pod.link_names().contains(&"veth0".to_owned()));
    let table = |source: &str| {
        let rules = pod.ip(&["rule"]);
        let own = rules.as_array().unwrap().iter().find(|rule| rule["src"] == source).cloned();
        own.unwrap_or_else(|| panic!("{source}: {rules}"))["table"].as_str().unwrap().to_owned()
    };
    assert_eq!((table("10.78.1.9").as_str(), table("192.168.0.5").as_str()), ("100", "101"));
    let own = pod.ip(&["route", "show", "table", "101"]);
    assert!(own.as_array().unwrap().iter().all(|route| route["dev"] == "net1"), "{own}");
    let back = pod.ip(&["route", "show", "table", "100"]);
    assert!(
        back.as_array().unwrap().iter().any(|route| route["dst"] == "default" && route["dev"] == "eth0"),
        "{back}"
    );
    // The routes of net1 must have moved from the main table to the interface's own table.
    assert_eq!(pod.ip(&["route", "show", "172.30.0.0/16"]).as_array().map(Vec::len), Some(0));
    del(&fixture, &pod.path).unwrap();
    assert_eq!(pod.ip(&["rule"]).as_array().unwrap().len(), 3);
    assert_clean(&fixture);
}

#[test]
fn a_second_network_has_its_own_table_and_the_node_reaches_both() {
    let networks = vec![with_coordinator("eth0", json!({})), with_coordinator("net1", json!({}))];
    let (fixture, _daemon, pod, _other) = set_up(networks, &["172.91.0.7/16", "192.168.0.5/24"]);
    add(&fixture, &pod).unwrap();
    let rules = pod.ip(&["rule"]);
    let own = rules.as_array().unwrap().iter().find(|rule| rule["src"] == "192.168.0.5").cloned();
    let table = own.unwrap_or_else(|| panic!("{rules}"))["table"].as_str().unwrap().to_owned();
    let routes = pod.ip(&["route", "show", "table", &table]);
    let own =
        |route: &Value| route["dev"] == "net1" || route["dst"] == "10.78.1.1" && route["dev"] == "veth0";
    assert!(routes.as_array().unwrap().iter().all(own), "{routes}");
    let main = pod.ip(&["route", "show", "172.30.0.0/16"]);
    assert!(main.as_array().unwrap().iter().all(|route| route["dev"] == "eth0"), "{main}");
    assert!(reaches(None, POD) && reaches(None, "192.168.0.5"));
    del(&fixture, &pod.path).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    assert_clean(&fixture);
}

#[test]
fn mac_prefix_is_set_on_an_ethernet_interface_and_in_the_result() {
    let mut ethernet =
        crate::meta_plugin::foreign_attachment("k8s", "eth0", true, "1.0.0", json!([{"type": "ether"}]));
    ethernet.steps.push(coordinator_step(json!({"podMACPrefix": "0a:1b"})));
    let (fixture, _daemon, pod, _other) = set_up(vec![ethernet], &[]);
    let result = json!({
        "cniVersion": "1.0.0", "ips": [{"address": "10.78.1.9/24", "interface": 0}],
        "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/proc/self/ns/net"}],
    });
    fixture.install_plugin(
        "ether",
        &format!(
            "pod() {{ nsenter --net=$CNI_NETNS ip \"$@\"; }}\ncase $CNI_COMMAND in ADD) pod link add eth0 type veth peer name eth0p; \
             pod address add 10.78.1.9/24 dev eth0; pod link set eth0p up; pod link set eth0 up; echo '{result}';; \
             DEL) pod link delete eth0;; esac"
        ),
    );
    let printed = add(&fixture, &pod).unwrap();
    // 10.78.1.9 is 0a:4e:01:09.
    assert_eq!(pod.interface("eth0")["address"], "0a:1b:0a:4e:01:09");
    assert_eq!(printed["interfaces"][0]["mac"], "0a:1b:0a:4e:01:09", "{printed}");
    del(&fixture, &pod.path).unwrap();
    assert_clean(&fixture);
}

// Case: ipam M15
#[test]
fn mode_disabled_does_nothing() {
    let (fixture, _daemon, pod, _other) =
        set_up(vec![with_coordinator("eth0", json!({"mode": "disabled"}))], &["172.91.0.7/16"]);
    add(&fixture, &pod).unwrap();
    assert_eq!(pod.link_names(), ["eth0"]);
    del(&fixture, &pod.path).unwrap();
    assert_clean(&fixture);
}

#[test]
fn killed_at_every_point_leaves_nothing() {
    let (fixture, daemon, pod, _other) =
        set_up(vec![with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    let before = host_ip(&["-4", "route", "show", "table", "all"]);
    let killed = |command: &str, last: usize| {
        let call = fixture.call(command, "c1", "eth0", &pod.path, &config());
        let run = |watch: &dyn Fn(FailPoint)| {
            fixture.run_on(
                &CniContext { fail_point: watch, ..fixture.context() },
                PluginType::Ferroband,
                &call,
            )
        };
        run_killed_at_point(last, run)
    };
    let assert_removed = |when: String| {
        assert_eq!(
            (pod.link_names(), daemon.held_containers(), fixture.journals()),
            (vec![], vec![], vec![]),
            "{when}"
        );
        assert_eq!(host_ip(&["rule"]).as_array().unwrap().len(), 3, "{when}");
        assert_eq!(pod.ip(&["rule"]).as_array().unwrap().len(), 3, "{when}");
        assert_eq!(host_ip(&["-4", "route", "show", "table", "all"]), before, "{when}");
    };
    let mut points = 0;
    while killed("ADD", points + 1).is_none() {
        points += 1;
        del(&fixture, &pod.path).unwrap();
        assert_removed(format!("ADD killed at fail point {points}"));
    }
    assert!(points > 12, "only {points} points");
    for point in 1.. {
        let done = killed("DEL", point);
        del(&fixture, &pod.path).unwrap();
        assert_removed(format!("DEL killed at fail point {point}"));
        if done.is_some() {
            break;
        }
        add(&fixture, &pod).unwrap();
    }
    assert_clean(&fixture);
}
