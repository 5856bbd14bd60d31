//! `coordinator`: with InfiniBand as its default network a pod reaches the node, services and other pods, and is reached.

use crate::crash::run_killed_at_point;
use crate::daemon::{ScriptedDaemon, ScriptedDaemonState};
use crate::meta::{ETH0, add, assigned_addresses, config, del, ipoib_attachment};
use crate::stage::{AttachFixture, PodNetnsFixture, host_ip};
use ferroband_attach::plan::{Attachment, PlanStep, StepKind};
use ferroband_attach::{CniContext, FailPoint, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const POD: &str = "172.91.0.7";

fn coordinator_step(more: Value) -> PlanStep {
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

/// A node with an address, and beside it a pod of the cluster's own network.
pub fn set_up(
    attachments: Vec<Attachment>,
    addresses: &[&str],
) -> (AttachFixture, ScriptedDaemon, PodNetnsFixture, PodNetnsFixture) {
    let stage = AttachFixture::new();
    stage.install_leasing_plugin("lease", "10.9.0.7/24");
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
    let ledger =
        ScriptedDaemonState { attachments, assigned: assigned.collect(), ..ScriptedDaemonState::default() };
    let daemon = ScriptedDaemon::start(&stage.root, ledger);
    (stage, daemon, PodNetnsFixture::new(), other)
}

fn reaches(from: Option<&PodNetnsFixture>, to: &str) -> bool {
    let ping = || Command::new("ping").args(["-c", "1", "-W", "2", "-q", to]).output().unwrap();
    let output = match from {
        Some(pod) => pod.netns.as_ref().unwrap().run(ping).unwrap(),
        None => ping(),
    };
    output.status.success()
}

/// Nothing is left but what the test itself made.
fn assert_clean(stage: &AttachFixture) {
    host_ip(&["link", "delete", "dev", "other"]);
    stage.assert_clean();
}

#[test]
fn a_pod_on_infiniband_reaches_the_node_and_other_pods_and_is_reached() {
    let ways = with_coordinator("eth0", json!({"txQueueLen": 77}));
    let (stage, daemon, pod, other) = set_up(vec![ways], &["172.91.0.7/16"]);
    let before = (host_ip(&["rule"]), host_ip(&["-4", "route", "show", "table", "all"]));
    add(&stage, &pod).unwrap();
    assert_eq!(pod.link_names(), ["eth0", "veth0"]);
    assert_eq!(pod.interface("eth0")["txqlen"], 77);
    assert!(reaches(None, POD), "a probe of the kubelet");
    assert!(reaches(Some(&other), POD), "a pod of the cluster's own network");
    assert!(reaches(Some(&pod), "10.78.1.1") && reaches(Some(&pod), "10.78.1.2"));
    // What goes to a service goes to the node, where kube-proxy is, and comes from the pod's own address.
    let way = pod.ip(&["route", "get", "10.96.0.1"]);
    assert_eq!((&way[0]["dev"], &way[0]["prefsrc"]), (&json!("veth0"), &json!(POD)), "{way}");
    let elsewhere = pod.ip(&["route", "get", "172.91.9.9"]);
    assert_eq!(elsewhere[0]["dev"], "eth0", "{elsewhere}");
    let rules = host_ip(&["rule"]);
    assert!(
        rules.as_array().unwrap().iter().any(|r| r["priority"] == 1000 && r["table"] == "500"),
        "{rules}"
    );
    stage
        .run(
            PluginType::Ferroband,
            "CHECK",
            ETH0,
            &pod.path,
            &json!({"cniVersion": "0.4.0", "name": "ferroband"}),
        )
        .unwrap();
    del(&stage, &pod.path).unwrap();
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    assert_eq!((host_ip(&["rule"]), host_ip(&["-4", "route", "show", "table", "all"])), before);
    assert_clean(&stage);
}

#[test]
fn m16_what_comes_from_subnets_that_nobody_named_is_answered_the_way_it_came() {
    let unnamed = json!({"serviceCIDR": [], "overlayPodCIDR": [], "hijackCIDR": []});
    let (stage, _daemon, pod, other) = set_up(vec![with_coordinator("eth0", unnamed)], &["172.91.0.7/16"]);
    add(&stage, &pod).unwrap();
    assert!(reaches(Some(&other), POD));
    // The fabric's own gateway would come first, and answers still go back.
    pod.ip(&["route", "add", "default", "via", "172.91.0.1", "dev", "eth0"]);
    assert!(!reaches(Some(&pod), "10.78.1.2"), "that is the gateway's business");
    assert!(reaches(Some(&other), POD), "an answer goes the way its question came");
    // The runtime may try again what it was told had failed.
    del(&stage, &pod.path).unwrap();
    add(&stage, &pod).unwrap();
    assert!(reaches(Some(&other), POD));
    del(&stage, &pod.path).unwrap();
    assert_clean(&stage);
}

#[test]
fn m25_the_last_pod_takes_the_rule_along() {
    let (stage, daemon, pod, _other) = set_up(vec![with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    let second = PodNetnsFixture::new();
    let c2 = ("c2", "eth0");
    add(&stage, &pod).unwrap();
    daemon.state.lock().unwrap().assigned = vec![assigned_addresses(0, "172.91.0.8/16")];
    stage.run(PluginType::Ferroband, "ADD", c2, &second.path, &config()).unwrap();
    assert!(reaches(None, POD) && reaches(None, "172.91.0.8"));
    del(&stage, &pod.path).unwrap();
    assert!(!reaches(None, POD) && reaches(None, "172.91.0.8"));
    stage.run(PluginType::Ferroband, "DEL", c2, &second.path, &config()).unwrap();
    assert_clean(&stage);
}

#[test]
fn beside_the_clusters_own_network_an_interface_answers_through_itself() {
    let first = crate::meta::foreign_attachment("k8s", "eth0", true, "1.0.0", json!([{"type": "ether"}]));
    let (stage, daemon, pod, _other) = set_up(vec![first, with_coordinator("net1", json!({}))], &[]);
    daemon.state.lock().unwrap().assigned = vec![assigned_addresses(1, "192.168.0.5/24")];
    let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.78.1.9/24"}]});
    stage.install_plugin(
        "ether",
        &format!(
            "pod() {{ nsenter --net=$CNI_NETNS ip \"$@\"; }}\ncase $CNI_COMMAND in ADD) pod link add eth0 type veth peer name eth0p; \
             pod address add 10.78.1.9/24 dev eth0; pod link set eth0p up; pod link set eth0 up; \
             pod route add default via 10.78.1.1; echo '{result}';; DEL) pod link delete eth0;; esac"
        ),
    );
    add(&stage, &pod).unwrap();
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
    // What net1 brought is its own business now.
    assert_eq!(pod.ip(&["route", "show", "172.30.0.0/16"]).as_array().map(Vec::len), Some(0));
    del(&stage, &pod.path).unwrap();
    assert_eq!(pod.ip(&["rule"]).as_array().unwrap().len(), 3);
    assert_clean(&stage);
}

#[test]
fn a_second_network_has_a_table_of_its_own_and_the_node_finds_both() {
    let networks = vec![with_coordinator("eth0", json!({})), with_coordinator("net1", json!({}))];
    let (stage, _daemon, pod, _other) = set_up(networks, &["172.91.0.7/16", "192.168.0.5/24"]);
    add(&stage, &pod).unwrap();
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
    del(&stage, &pod.path).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    assert_clean(&stage);
}

#[test]
fn m15_switched_off_it_does_nothing() {
    let (stage, _daemon, pod, _other) =
        set_up(vec![with_coordinator("eth0", json!({"mode": "disabled"}))], &["172.91.0.7/16"]);
    add(&stage, &pod).unwrap();
    assert_eq!(pod.link_names(), ["eth0"]);
    del(&stage, &pod.path).unwrap();
    assert_clean(&stage);
}

#[test]
fn killed_at_every_point() {
    let (stage, daemon, pod, _other) = set_up(vec![with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    let before = host_ip(&["-4", "route", "show", "table", "all"]);
    let killed = |command: &str, last: usize| {
        let call = stage.call(command, "c1", "eth0", &pod.path, &config());
        let run = |watch: &dyn Fn(FailPoint)| {
            stage.run_on(&CniContext { fail_point: watch, ..stage.context() }, PluginType::Ferroband, &call)
        };
        run_killed_at_point(last, run)
    };
    let gone = |when: String| {
        assert_eq!(
            (pod.link_names(), daemon.held_containers(), stage.journals()),
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
        del(&stage, &pod.path).unwrap();
        gone(format!("ADD killed at {points}"));
    }
    assert!(points > 12, "only {points} points");
    for point in 1.. {
        let done = killed("DEL", point);
        del(&stage, &pod.path).unwrap();
        gone(format!("DEL killed at {point}"));
        if done.is_some() {
            break;
        }
        add(&stage, &pod).unwrap();
    }
    assert_clean(&stage);
}
