//! The `coordinator` plugin after foreign main plugins, each of which adds a default route of its own.

use crate::coordinator::{coordinator_step, set_up};
use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::meta_plugin::{add, del, foreign_attachment};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::plan::Attachment;
use serde_json::{Value, json};

/// Install a plugin that creates its interface with these addresses, and a default route through each gateway. Like the
/// reference plugins, it adds routes without NLM_F_EXCL: an IPv4 route comes before existing ones, and an IPv6 route
/// becomes a further next hop.
pub fn install_main_plugin(fixture: &AttachFixture, name: &str, addresses: &[(&str, &str)]) {
    let mut add =
        "pod link add $CNI_IFNAME type veth peer name ${CNI_IFNAME}p; pod link set ${CNI_IFNAME}p up; \
                   pod link set $CNI_IFNAME up; "
            .to_owned();
    for (address, gateway) in addresses {
        let (family, order, nodad) =
            if address.contains(':') { ("-6", "append", "nodad") } else { ("-4", "prepend", "") };
        add += &format!("pod {family} address add {address} dev $CNI_IFNAME {nodad}; ");
        if !gateway.is_empty() {
            add += &format!("pod {family} route {order} default via {gateway} dev $CNI_IFNAME; ");
        }
    }
    let result = json!({"cniVersion": "1.0.0", "ips": [{"address": addresses[0].0}]});
    let script = format!(
        "set -e; pod() {{ nsenter --net=$CNI_NETNS ip \"$@\"; }}\n\
         case $CNI_COMMAND in ADD) {add} echo '{result}';; DEL) pod link delete $CNI_IFNAME || true;; esac"
    );
    fixture.install_plugin(name, &script);
}

pub fn network(ifname: &str, plugin: &str, coordinator: Option<Value>) -> Attachment {
    let mut network =
        foreign_attachment(plugin, ifname, ifname == "eth0", "1.0.0", json!([{"type": plugin}]));
    network.steps.extend(coordinator.map(coordinator_step));
    network
}

const FIRST: [(&str, &str); 2] = [("10.1.0.7/24", "10.1.0.1"), ("fd01::7/64", "fd01::1")];
const SECOND: [(&str, &str); 2] = [("10.2.0.7/24", "10.2.0.1"), ("fd02::7/64", "fd02::1")];

/// Attach a pod with these two networks. The daemon runs as long as the returned value.
fn attach(
    networks: Vec<Attachment>,
    first: &[(&str, &str)],
    second: &[(&str, &str)],
) -> (AttachFixture, ScriptedDaemon, PodNetnsFixture) {
    let (fixture, daemon, pod, _other) = set_up(networks, &[]);
    install_main_plugin(&fixture, "first", first);
    install_main_plugin(&fixture, "second", second);
    add(&fixture, &pod).unwrap();
    (fixture, daemon, pod)
}

/// Default routes of a table as `gateway dev`, without those through the veth to the node.
fn default_routes(pod: &PodNetnsFixture, table: &str) -> Vec<String> {
    let mut found = Vec::new();
    for family in ["-4", "-6"] {
        let routes = pod.ip(&[family, "route", "show", "default", "table", table]);
        for route in routes.as_array().into_iter().flatten() {
            let hops = route["nexthops"].as_array().cloned().unwrap_or_else(|| vec![route.clone()]);
            let text = |hop: &Value| {
                format!("{} {}", hop["gateway"].as_str().unwrap(), hop["dev"].as_str().unwrap())
            };
            found.extend(hops.iter().map(text).filter(|hop| !hop.ends_with(" veth0")));
        }
    }
    found
}

/// The table that a source address selects.
fn table_of(pod: &PodNetnsFixture, source: &str) -> String {
    let family = if source.contains(':') { "-6" } else { "-4" };
    let rules = pod.ip(&[family, "rule"]);
    let own = rules.as_array().unwrap().iter().find(|rule| rule["src"] == source).cloned();
    own.unwrap_or_else(|| panic!("{source}: {rules}"))["table"].as_str().unwrap().to_owned()
}

#[test]
fn a_second_network_does_not_take_the_default_route() {
    let underlay =
        vec![network("eth0", "first", Some(json!({}))), network("net1", "second", Some(json!({})))];
    let overlay = vec![network("eth0", "first", None), network("net1", "second", Some(json!({})))];
    for networks in [underlay, overlay] {
        let (fixture, _daemon, pod) = attach(networks, &FIRST, &SECOND);
        assert_eq!(default_routes(&pod, "main"), ["10.1.0.1 eth0", "fd01::1 eth0"]);
        let table = table_of(&pod, "10.2.0.7");
        assert_eq!(table_of(&pod, "fd02::7"), table);
        assert_eq!(default_routes(&pod, &table), ["10.2.0.1 net1", "fd02::1 net1"]);
        del(&fixture, &pod.path).unwrap();
    }
}

#[test]
fn the_default_route_nic_keeps_its_default_route() {
    let nic = || Some(json!({"podDefaultRouteNIC": "net1"}));
    let underlay = vec![network("eth0", "first", nic()), network("net1", "second", nic())];
    let overlay = vec![network("eth0", "first", None), network("net1", "second", nic())];
    for networks in [underlay, overlay] {
        let (fixture, _daemon, pod) = attach(networks, &FIRST, &SECOND);
        assert_eq!(default_routes(&pod, "main"), ["10.2.0.1 net1", "fd02::1 net1"]);
        let table = table_of(&pod, "10.1.0.7");
        assert_eq!(table_of(&pod, "fd01::7"), table);
        assert_eq!(default_routes(&pod, &table), ["10.1.0.1 eth0", "fd01::1 eth0"]);
        del(&fixture, &pod.path).unwrap();
    }
}

#[test]
fn each_address_family_has_a_default_route_of_its_own() {
    let networks =
        || vec![network("eth0", "first", Some(json!({}))), network("net1", "second", Some(json!({})))];
    // Only the second network has an IPv6 gateway.
    let (fixture, _daemon, pod) = attach(networks(), &FIRST[..1], &SECOND);
    assert_eq!(default_routes(&pod, "main"), ["10.1.0.1 eth0", "fd02::1 net1"]);
    del(&fixture, &pod.path).unwrap();
    // The default-route NIC has no IPv6 gateway, so the other one stays.
    let nic = || Some(json!({"podDefaultRouteNIC": "net1"}));
    let networks = vec![network("eth0", "first", nic()), network("net1", "second", nic())];
    let (fixture, _daemon, pod) = attach(networks, &FIRST, &SECOND[..1]);
    assert_eq!(default_routes(&pod, "main"), ["10.2.0.1 net1", "fd01::1 eth0"]);
    del(&fixture, &pod.path).unwrap();
}
