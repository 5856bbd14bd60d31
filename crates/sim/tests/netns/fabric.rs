//! Tests of partitions across nodes.

use super::fixture::{SimNodeFixture, ip_json, new_netns, ping, reaches};
use ferroband_kernel::Netns;
use ferroband_kernel::rtnetlink::{LinkKind, NewLink, RouteSocket};
use ferroband_sim::Error;

/// Two nodes whose `eth0` interfaces are connected by a bridge with this MTU in a separate namespace.
fn nodes(mtu: u32) -> (Netns, SimNodeFixture, SimNodeFixture) {
    let underlay = new_netns();
    let nodes = [SimNodeFixture::new(), SimNodeFixture::new()];
    let mut route = RouteSocket::open_in(&underlay).unwrap();
    // The bridge has multicast snooping, as on bridges that administrators create. The partitions use
    // multicast and must work with it.
    underlay.run(|| ip_json("link add switch up type bridge")).unwrap();
    let switch = route.link("switch").unwrap().unwrap().index;
    for (number, node) in nodes.iter().enumerate() {
        let kind = LinkKind::Veth { peer: "eth0" };
        route
            .create_link(&NewLink {
                mtu: Some(mtu),
                master: Some(switch),
                up: true,
                ..NewLink::new("port%d", kind)
            })
            .unwrap();
        let eth0 = route.link("eth0").unwrap().unwrap();
        route.move_link(eth0.index, &node.netns).unwrap();
        let mut inside = RouteSocket::open_in(&node.netns).unwrap();
        let eth0 = inside.link("eth0").unwrap().unwrap();
        inside.add_address(eth0.index, format!("172.16.0.{}/24", number + 1).parse().unwrap()).unwrap();
        inside.set_up(eth0.index).unwrap();
        node.up(&format!("node-{number}"), Some("eth0")).unwrap();
    }
    let [one, two] = nodes;
    (underlay, one, two)
}

#[test]
fn pods_on_two_nodes_reach_only_pods_of_their_partition() {
    let (_underlay, one, two) = nodes(9000);
    let pod = one.create_ipoib_pod(0xffff, "192.168.0.1/24");
    let _same_partition = two.create_ipoib_pod(0xffff, "192.168.0.2/24");
    let _other_partition_remote = two.create_ipoib_pod(0x8005, "192.168.0.3/24");
    let _other_partition_local = one.create_ipoib_pod(0x8005, "192.168.0.5/24");
    assert!(reaches(&pod, "192.168.0.2", 2016), "packets of 2044 bytes");
    assert!(!reaches(&pod, "192.168.0.3", 56), "another partition on the other node");
    assert!(!reaches(&pod, "192.168.0.5", 56), "another partition on this node");
    let vxlan = one.run(|| ip_json("link show dev fbx7fff"))[0]["linkinfo"]["info_data"].clone();
    assert_eq!((&vxlan["id"], &vxlan["group"]), (&0xfb7fff.into(), &"239.251.127.255".into()));
    assert_eq!((&vxlan["link"], &vxlan["port"]), (&"eth0".into(), &4789.into()));
    for node in [&one, &two] {
        node.down().unwrap();
        assert_eq!(node.link_names(), ["eth0"]);
    }
}

#[test]
fn full_and_limited_members_reach_each_other_across_nodes() {
    let (_underlay, one, two) = nodes(9000);
    let pod = one.create_ipoib_pod(0x0005, "192.168.0.3/24");
    let _same_partition = two.create_ipoib_pod(0x8005, "192.168.0.4/24");
    assert!(reaches(&pod, "192.168.0.4", 2016));
}

#[test]
fn small_uplink_reduces_the_mtu() {
    let (_underlay, one, two) = nodes(1500);
    let parent = one.run(|| one.host().ipoib_parent("ib0").unwrap());
    assert_eq!(parent.mtu, 1450);
    let pod = one.create_ipoib_pod(0xffff, "192.168.0.1/24");
    let _same_partition = two.create_ipoib_pod(0xffff, "192.168.0.2/24");
    assert_eq!(pod.run(|| ip_json("link show dev net1")[0]["mtu"].clone()).unwrap(), 1450);
    assert!(reaches(&pod, "192.168.0.2", 1422));
    assert!(!ping(&pod, "192.168.0.2", 1423).status.success());
}

#[test]
fn increased_uplink_mtu_is_used() {
    let (underlay, one, two) = nodes(1500);
    let _first = one.create_ipoib_pod(0xffff, "192.168.0.1/24");
    let mut switch = RouteSocket::open_in(&underlay).unwrap();
    for port in ["port0", "port1"] {
        let port = switch.link(port).unwrap().unwrap();
        switch.set_mtu(port.index, 9000).unwrap();
    }
    for node in [&one, &two] {
        let mut route = RouteSocket::open_in(&node.netns).unwrap();
        let eth0 = route.link("eth0").unwrap().unwrap();
        route.set_mtu(eth0.index, 9000).unwrap();
    }
    let pod = one.create_ipoib_pod(0xffff, "192.168.0.2/24");
    let _same_partition = two.create_ipoib_pod(0xffff, "192.168.0.3/24");
    assert!(reaches(&pod, "192.168.0.3", 2016));
}

#[test]
fn missing_uplink_is_reported() {
    let node = SimNodeFixture::new();
    let error = node.up("node-1", Some("eth9")).unwrap_err();
    assert!(matches!(&error, Error::NoUplink { uplink } if uplink == "eth9"), "{error}");
    assert!(node.link_names().is_empty());
    assert!(!node.root.state("sim").exists());
}
