//! Tests of routes with all their attributes, of several routes to one destination, and of routing rules.

use super::fixture::{create_veth, enter_new_netns, ip_json, main_routes};
use ferroband_kernel::rtnetlink::{Link, RouteSocket, RouteSpec, RoutingRule};
use ipnet::IpNet;
use serde_json::Value;
use std::net::IpAddr;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

/// Creates a veth pair with both ends up and returns the end `name`, which has `addresses`.
fn create_connected_veth(route: &mut RouteSocket, name: &str, addresses: &[&str]) -> Link {
    let peer = format!("{name}p");
    let link = create_veth(route, name, &peer);
    let other = route.link(&peer).unwrap().unwrap();
    for one in addresses {
        route.add_address(link.index, net(one)).unwrap();
    }
    route.set_up(other.index).unwrap();
    route.set_up(link.index).unwrap();
    link
}

fn routes(arguments: &str) -> Vec<Value> {
    ip_json(arguments).as_array().unwrap().clone()
}

/// Creates the interfaces of a pod: `eth0` of the cluster network and `net1` of an additional network. Each has an
/// IPv4 and an IPv6 address.
fn pod(route: &mut RouteSocket) -> (Link, Link) {
    let eth0 = create_connected_veth(route, "eth0", &["10.244.0.7/24", "fd44::7/64"]);
    let net1 = create_connected_veth(route, "net1", &["192.168.0.5/24", "fd00::5/64"]);
    (eth0, net1)
}

#[test]
fn second_default_route_is_appended_after_the_first() {
    let mut route = enter_new_netns();
    let (eth0, net1) = pod(&mut route);
    for _ in 0..2 {
        route.add_route(eth0.index, net("0.0.0.0/0"), address("10.244.0.1")).unwrap();
        route.add_route(net1.index, net("0.0.0.0/0"), address("192.168.0.1")).unwrap();
        route.add_route(eth0.index, net("::/0"), address("fd44::1")).unwrap();
        route.add_route(net1.index, net("::/0"), address("fd00::1")).unwrap();
    }
    let ipv4 = routes("-4 route show default");
    let listed: Vec<_> = ipv4.iter().map(|route| (&route["dev"], &route["gateway"])).collect();
    assert_eq!(
        listed,
        [(&"eth0".into(), &"10.244.0.1".into()), (&"net1".into(), &"192.168.0.1".into())],
        "the default route of eth0 stays first"
    );
    assert_eq!(ip_json("-4 route get 8.8.8.8")[0]["dev"], "eth0");
    // For IPv6 the kernel merges both default routes into one with two next hops. Each must be listed once.
    for (link, gateway) in [(&eth0, "fd44::1"), (&net1, "fd00::1")] {
        let listed = main_routes(&mut route, link.index);
        let expected = (net("::/0"), address(gateway));
        assert_eq!(listed.iter().filter(|path| **path == expected).count(), 1, "{listed:?}");
    }
}

#[test]
fn all_route_attributes_are_preserved() {
    let mut route = enter_new_netns();
    let (_, net1) = pod(&mut route);
    let ipv4 = RouteSpec {
        priority: Some(77),
        table: Some(1000),
        mtu: Some(1400),
        advmss: Some(1360),
        source: address("192.168.0.5"),
        ..RouteSpec::new(net("10.1.2.3/16"), address("192.168.0.1"))
    };
    let ipv6 = RouteSpec {
        priority: Some(78),
        table: Some(100),
        mtu: Some(1380),
        ..RouteSpec::new(net("fd01::/48"), address("fd00::1"))
    };
    let host = RouteSpec { scope: Some(254), ..RouteSpec::new(net("10.7.0.0/16"), None) };
    for _ in 0..2 {
        for spec in [&ipv4, &ipv6, &host] {
            route.append_route(net1.index, spec).unwrap();
        }
    }
    let shown = routes("-4 route show table 1000");
    let [one] = shown.as_slice() else { panic!("{shown:?}") };
    assert_eq!((&one["dst"], &one["gateway"]), (&"10.1.0.0/16".into(), &"192.168.0.1".into()));
    assert_eq!((&one["metric"], &one["prefsrc"]), (&77.into(), &"192.168.0.5".into()));
    assert_eq!(
        (&one["metrics"][0]["mtu"], &one["metrics"][0]["advmss"]),
        (&1400.into(), &1360.into()),
        "{one}"
    );
    let shown = routes("-6 route show table 100");
    assert_eq!((shown.len(), &shown[0]["metric"]), (1, &78.into()), "{shown:?}");
    assert_eq!(routes("-4 route show 10.7.0.0/16")[0]["scope"], "host");

    let all = route.all_routes().unwrap();
    let find = |table| all.iter().find(|entry| entry.route.table == Some(table)).unwrap();
    let entry = find(1000);
    let expected = RouteSpec { destination: net("10.1.0.0/16"), scope: Some(0), ..ipv4 };
    assert_eq!((entry.route, entry.interface, entry.kind), (expected, Some(net1.index), 1));
    assert_eq!(find(100).route.mtu, Some(1380));
    assert!(!main_routes(&mut route, net1.index).iter().any(|path| path.0 == net("10.1.0.0/16")));

    for _ in 0..2 {
        route.remove_route(net1.index, &ipv4).unwrap();
        route.remove_route(net1.index, &ipv6).unwrap();
        route.remove_route(net1.index, &RouteSpec::new(net("10.7.0.0/16"), None)).unwrap();
    }
    assert!(routes("-4 route show table 1000").is_empty());
    assert!(routes("-6 route show table 100").is_empty());
    assert!(routes("-4 route show 10.7.0.0/16").is_empty());
}

#[test]
fn multipath_route_yields_one_entry_per_next_hop() {
    let mut route = enter_new_netns();
    let (eth0, net1) = pod(&mut route);
    ip_json("-4 route add 10.5.0.0/16 nexthop via 10.244.0.1 nexthop via 192.168.0.1");
    let entries: Vec<_> = route
        .all_routes()
        .unwrap()
        .into_iter()
        .filter(|entry| entry.route.destination == net("10.5.0.0/16"))
        .map(|entry| (entry.interface, entry.route.gateway))
        .collect();
    assert_eq!(
        entries,
        [(Some(eth0.index), address("10.244.0.1")), (Some(net1.index), address("192.168.0.1"))]
    );
}

#[test]
fn rules_are_added_and_removed() {
    let mut route = enter_new_netns();
    pod(&mut route);
    let from = RoutingRule { priority: Some(1000), ..RoutingRule::from_source(net("192.168.0.5/32"), 100) };
    let ipv6 = RoutingRule {
        priority: Some(1001),
        destination: Some(net("fd00::/64")),
        ..RoutingRule::for_family(true, 2000)
    };
    let marked = RoutingRule {
        priority: Some(1002),
        mark: Some((0x10, 0xff)),
        input_interface: Some("eth0".to_owned()),
        ..RoutingRule::for_family(false, 101)
    };
    for _ in 0..2 {
        for rule in [&from, &ipv6, &marked] {
            route.add_rule(rule).unwrap();
        }
    }
    let ipv4 = routes("-4 rule show");
    let find = |priority: u32| ipv4.iter().find(|rule| rule["priority"] == priority).unwrap();
    assert_eq!((&find(1000)["src"], &find(1000)["table"]), (&"192.168.0.5".into(), &"100".into()));
    assert_eq!((&find(1002)["iif"], &find(1002)["fwmark"]), (&"eth0".into(), &"0x10".into()));
    let six_shown = routes("-6 rule show to fd00::/64");
    assert_eq!((six_shown.len(), &six_shown[0]["table"]), (1, &"2000".into()), "{six_shown:?}");
    let listed = route.rules().unwrap();
    for rule in [&from, &ipv6, &marked] {
        assert_eq!(listed.iter().filter(|listed| *listed == rule).count(), 1, "{rule:?} in {listed:?}");
    }
    assert!(
        listed
            .iter()
            .any(|rule| !rule.v6 && rule.table == RouteSpec::MAIN_TABLE && rule.priority == Some(32766))
    );
    for _ in 0..2 {
        for rule in [&from, &ipv6, &marked] {
            route.remove_rule(rule).unwrap();
        }
    }
    assert_eq!(routes("-4 rule show").len(), 3);
    assert!(routes("-6 rule show to fd00::/64").is_empty());
}
