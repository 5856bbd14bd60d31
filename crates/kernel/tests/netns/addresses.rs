//! Tests of addresses and routes.

use super::fixture::{create_veth, enter_new_netns, ip_json, main_routes};
use ferroband_kernel::rtnetlink::{Link, RouteSocket};
use ferroband_kernel::{Errno, Error};
use ipnet::IpNet;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A veth pair with both ends up, because IPv6 routes need a carrier.
fn create_connected_veth(route: &mut RouteSocket) -> Link {
    let link = create_veth(route, "net1", "peer");
    let peer = route.link("peer").unwrap().unwrap();
    route.set_up(peer.index).unwrap();
    route.set_up(link.index).unwrap();
    link
}

fn shown_addresses() -> Vec<String> {
    let links = ip_json("address show dev net1");
    let infos = links[0]["addr_info"].as_array().unwrap().clone();
    let global = infos.iter().filter(|info| info["scope"] == "global");
    global.map(|info| format!("{}/{}", info["local"].as_str().unwrap(), info["prefixlen"])).collect()
}

#[test]
fn adding_an_address_is_idempotent() {
    let mut route = enter_new_netns();
    let link = create_connected_veth(&mut route);
    for _ in 0..2 {
        route.add_address(link.index, net("192.168.0.5/24")).unwrap();
        route.add_address(link.index, net("fd00::5/64")).unwrap();
    }
    assert_eq!(shown_addresses(), ["192.168.0.5/24", "fd00::5/64"]);
    let broadcast = ip_json("-4 address show dev net1")[0]["addr_info"][0]["broadcast"].clone();
    assert_eq!(broadcast, "192.168.0.255");
    let mut listed = route.addresses(link.index).unwrap();
    listed.retain(|address| !matches!(address, IpNet::V6(v6) if v6.addr().is_unicast_link_local()));
    assert_eq!(listed, [net("192.168.0.5/24"), net("fd00::5/64")]);
    let peer = route.link("peer").unwrap().unwrap();
    assert!(
        !route.addresses(peer.index).unwrap().contains(&net("192.168.0.5/24")),
        "only the addresses of the interface"
    );
}

#[test]
fn address_with_another_prefix_length_is_distinct() {
    let mut route = enter_new_netns();
    let link = create_connected_veth(&mut route);
    route.add_address(link.index, net("fd00::5/64")).unwrap();
    match route.add_address(link.index, net("fd00::5/48")) {
        Err(Error::InterfaceRequest { interface, errno, doing, .. }) => {
            assert_eq!((interface.as_str(), errno), ("net1", Errno::EEXIST));
            assert!(doing.contains("fd00::5/48"), "{doing}");
        }
        other => panic!("{other:?}"),
    }
    // IPv4 accepts the same address with both prefix lengths, like `ip address add`.
    route.add_address(link.index, net("192.168.0.5/24")).unwrap();
    route.add_address(link.index, net("192.168.0.5/16")).unwrap();
    assert_eq!(shown_addresses(), ["192.168.0.5/24", "192.168.0.5/16", "fd00::5/64"]);
}

#[test]
fn host_address_has_no_broadcast_address() {
    let mut route = enter_new_netns();
    let link = create_connected_veth(&mut route);
    route.add_address(link.index, net("10.0.0.1/32")).unwrap();
    assert_eq!(ip_json("-4 address show dev net1")[0]["addr_info"][0]["broadcast"], serde_json::Value::Null);
}

#[test]
fn adding_a_route_is_idempotent() {
    let mut route = enter_new_netns();
    let link = create_connected_veth(&mut route);
    route.add_address(link.index, net("192.168.0.5/24")).unwrap();
    route.add_address(link.index, net("fd00::5/64")).unwrap();
    let paths = [
        (net("0.0.0.0/0"), Some([192, 168, 0, 1].into())),
        (net("10.1.0.0/16"), Some([192, 168, 0, 2].into())),
        (net("10.2.0.0/16"), None),
        (net("::/0"), Some("fd00::1".parse().unwrap())),
        (net("fd01::/64"), None),
    ];
    for _ in 0..2 {
        for (destination, gateway) in paths {
            route.add_route(link.index, destination, gateway).unwrap();
        }
    }
    let ipv4 = ip_json("-4 route show");
    let find = |to: &str| ipv4.as_array().unwrap().iter().find(|route| route["dst"] == to).unwrap().clone();
    assert_eq!(
        (&find("default")["gateway"], &find("default")["dev"]),
        (&"192.168.0.1".into(), &"net1".into())
    );
    assert_eq!(find("10.1.0.0/16")["gateway"], "192.168.0.2");
    assert_eq!(
        (&find("10.2.0.0/16")["scope"], &find("10.2.0.0/16")["gateway"]),
        (&"link".into(), &serde_json::Value::Null)
    );
    let ipv6 = ip_json("-6 route show default");
    assert_eq!((ipv6.as_array().unwrap().len(), &ipv6[0]["gateway"]), (1, &"fd00::1".into()));
    let listed = main_routes(&mut route, link.index);
    for path in paths {
        assert_eq!(listed.iter().filter(|route| **route == path).count(), 1, "{path:?} in {listed:?}");
    }
}

#[test]
fn host_bits_of_a_destination_are_ignored() {
    let mut route = enter_new_netns();
    let link = create_connected_veth(&mut route);
    for _ in 0..2 {
        route.add_route(link.index, net("10.1.2.3/16"), None).unwrap();
    }
    assert_eq!(ip_json("-4 route show")[0]["dst"], "10.1.0.0/16");
}

#[test]
fn unreachable_gateway_is_rejected() {
    let mut route = enter_new_netns();
    let link = create_connected_veth(&mut route);
    route.add_address(link.index, net("192.168.0.5/24")).unwrap();
    let error = route.add_route(link.index, net("10.9.0.0/16"), Some([172, 16, 0, 1].into())).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENETUNREACH));
    assert!(error.to_string().contains("route to 10.9.0.0/16 via 172.16.0.1"), "{error}");
}
