//! Tests of interface lookup, creation and changes.

use super::fixture::{create_veth, enter_new_netns, ip_json, ip_link, ip_link_names, new_netns};
use ferroband_kernel::ethtool::statistics;
use ferroband_kernel::rtnetlink::{LinkKind, NewLink, Vxlan};
use ferroband_kernel::{Errno, Error};

const LONG: &str = "an-altname-longer-than-fifteen-characters";

#[test]
fn link_is_found_only_by_its_name_and_altnames() {
    let mut route = enter_new_netns();
    let created = create_veth(&mut route, "ibs5f0", "peer");
    ip_json("link property add dev ibs5f0 altname ib0");
    ip_json(&format!("link property add dev ibs5f0 altname {LONG}"));
    for name in ["ibs5f0", "ib0", LONG] {
        let link = route.link(name).unwrap().unwrap_or_else(|| panic!("{name}"));
        assert_eq!((link.index, link.name.as_str()), (created.index, "ibs5f0"));
        assert_eq!(link.altnames, ["ib0", LONG]);
    }
    let too_long = "x".repeat(128);
    for name in ["", "ib", "ib00", "ib0\0", "ib0\0x", "an-altname-longer-than", too_long.as_str(), "ibs5f0 "]
    {
        assert_eq!(route.link(name).unwrap(), None, "{name:?}");
    }
    assert_eq!(route.link_by_index(created.index).unwrap().unwrap().name, "ibs5f0");
    assert_eq!(route.link_by_index(0).unwrap(), None);
    assert_eq!(route.link_by_index(99_999).unwrap(), None);
}

#[test]
fn names_with_a_zero_byte_are_rejected() {
    let mut route = enter_new_netns();
    let one = create_veth(&mut route, "one", "two");
    let name = "net1\0x";
    let results = [
        route.rename_link(one.index, name),
        route.add_altname(one.index, name),
        route.move_and_rename(one.index, &new_netns(), name),
        route.create_link(&NewLink::new(name, LinkKind::Bridge)),
    ];
    for result in results {
        assert_eq!(result.unwrap_err().errno(), Some(Errno::EINVAL));
    }
    assert_eq!((route.link("net1").unwrap(), route.link("one").unwrap()), (None, Some(one)));
}

#[test]
fn link_properties_match_ip() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "one", "two");
    let shown = ip_link("one");
    assert_eq!(shown["ifindex"], link.index);
    assert_eq!(shown["mtu"], link.mtu);
    assert_eq!(shown["linkinfo"]["info_kind"], link.kind.as_deref().unwrap());
    let address: Vec<String> = link.address.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(shown["address"], address.join(":"));
    assert_eq!((link.link_type, link.up, link.carrier, link.master), (1, false, false, None));
    assert_eq!(
        link.parent,
        route.link("two").unwrap().map(|two| two.index),
        "the parent of a veth is its peer"
    );
    let lo = route.link("lo").unwrap().unwrap();
    assert_eq!((lo.kind.as_deref(), lo.link_type, lo.kind_or_type().as_str()), (None, 772, "loopback"));
}

#[test]
fn three_hundred_links_are_listed_completely() {
    let mut route = enter_new_netns();
    for number in 0..300 {
        route.create_link(&NewLink::new(&format!("br{number}"), LinkKind::Bridge)).unwrap();
    }
    let mut listed: Vec<String> = route.links().unwrap().into_iter().map(|link| link.name).collect();
    let mut expected = ip_link_names();
    expected.push("lo".to_owned());
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(listed.len(), 301);
}

#[test]
fn veth_pair_on_a_bridge_is_created_in_one_request() {
    let mut route = enter_new_netns();
    route.create_link(&NewLink { up: true, ..NewLink::new("bridge0", LinkKind::Bridge) }).unwrap();
    let bridge = route.link("bridge0").unwrap().unwrap();
    let kind = LinkKind::Veth { peer: "net1" };
    let pair =
        NewLink { mtu: Some(2044), master: Some(bridge.index), up: true, ..NewLink::new("port%d", kind) };
    route.create_link(&pair).unwrap();
    let port = ip_link("port0");
    assert_eq!((&port["master"], &port["mtu"]), (&"bridge0".into(), &2044.into()));
    assert!(port["flags"].as_array().unwrap().contains(&"UP".into()), "{port}");
    let child = ip_link("net1");
    assert_eq!(child["mtu"], 2044);
    assert!(!child["flags"].as_array().unwrap().contains(&"UP".into()), "{child}");
    assert_eq!(route.link("port0").unwrap().unwrap().master, Some(bridge.index));
    assert_eq!(ip_link("bridge0")["linkinfo"]["info_data"]["mcast_snooping"], 0);

    route.set_master(port["ifindex"].as_u64().unwrap().try_into().unwrap(), None).unwrap();
    assert_eq!(ip_link("port0")["master"], serde_json::Value::Null);
}

#[test]
fn vxlan_has_the_requested_parameters() {
    let mut route = enter_new_netns();
    let uplink = create_veth(&mut route, "uplink", "far");
    let vxlan = Vxlan { id: 0xfb7fff, group: [239, 251, 127, 255].into(), port: 4789, device: uplink.index };
    route.create_link(&NewLink { mtu: Some(1400), ..NewLink::new("vx", LinkKind::Vxlan(vxlan)) }).unwrap();
    let shown = ip_link("vx");
    let data = &shown["linkinfo"]["info_data"];
    assert_eq!(shown["linkinfo"]["info_kind"], "vxlan");
    assert_eq!((&data["id"], &data["group"]), (&0xfb7fff.into(), &"239.251.127.255".into()));
    assert_eq!((&data["link"], &data["port"], &shown["mtu"]), (&"uplink".into(), &4789.into(), &1400.into()));
}

#[test]
fn name_in_use_is_reported() {
    let mut route = enter_new_netns();
    create_veth(&mut route, "net1", "peer");
    let attempts = [
        route.create_link(&NewLink::new("net1", LinkKind::Bridge)),
        route.create_link(&NewLink::new("port%d", LinkKind::Veth { peer: "net1" })),
    ];
    for attempt in attempts {
        match attempt {
            Err(Error::NameTaken { interface }) => assert_eq!(interface, "net1"),
            other => panic!("{other:?}"),
        }
    }
    let peer = route.link("peer").unwrap().unwrap();
    assert!(matches!(route.rename_link(peer.index, "net1"), Err(Error::NameTaken { .. })));
    assert_eq!(ip_link_names().len(), 2, "nothing remains");
}

#[test]
fn name_mtu_and_flags_can_be_changed() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "before", "peer");
    route.rename_link(link.index, "after").unwrap();
    route.set_mtu(link.index, 1496).unwrap();
    route.set_up(link.index).unwrap();
    let up = ip_link("after");
    assert_eq!((&up["ifindex"], &up["mtu"]), (&link.index.into(), &1496.into()));
    assert!(up["flags"].as_array().unwrap().contains(&"UP".into()));
    assert!(route.link("after").unwrap().unwrap().up);
    route.set_down(link.index).unwrap();
    assert!(!ip_link("after")["flags"].as_array().unwrap().contains(&"UP".into()));
}

#[test]
fn altnames_are_added_and_removed() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "one", "two");
    let two = route.link("two").unwrap().unwrap();
    for _ in 0..2 {
        route.add_altname(link.index, "ib0").unwrap();
        route.add_altname(link.index, LONG).unwrap();
    }
    assert_eq!(ip_link("one")["altnames"], serde_json::json!(["ib0", LONG]));
    assert!(matches!(route.add_altname(two.index, "ib0"), Err(Error::NameTaken { .. })));
    for _ in 0..2 {
        route.remove_altname(link.index, "ib0").unwrap();
    }
    assert_eq!(ip_link("one")["altnames"], serde_json::json!([LONG]));
    route.add_altname(two.index, "ib0").unwrap();
}

#[test]
fn delete_is_idempotent() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "one", "two");
    for _ in 0..2 {
        route.delete_link(link.index).unwrap();
    }
    assert!(ip_link_names().is_empty());
    let lo = route.link("lo").unwrap().unwrap();
    match route.delete_link(lo.index) {
        Err(Error::InterfaceRequest { interface, errno, .. }) => {
            assert_eq!((interface.as_str(), errno), ("lo", Errno::EOPNOTSUPP));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn explanation_of_the_kernel_is_part_of_the_error() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "one", "two");
    match route.set_mtu(link.index, 70_000) {
        Err(Error::InterfaceRequest { interface, errno, message, .. }) => {
            assert_eq!((interface.as_str(), errno), ("one", Errno::EINVAL));
            assert!(message.as_deref().unwrap_or_default().contains("mtu"), "{message:?}");
        }
        other => panic!("{other:?}"),
    }
    let error = route.set_up(99_999).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENODEV));
    assert!(error.to_string().contains("#99999"), "{error}");
}

#[test]
fn move_can_change_the_index() {
    let mut route = enter_new_netns();
    let pod = new_netns();
    let mut inside = ferroband_kernel::RouteSocket::open_in(&pod).unwrap();
    let link = create_veth(&mut route, "moving", "stays");
    // This pair occupies the same indexes in the target namespace, so the moved interface must get another
    // index.
    create_veth(&mut inside, "there", "before");
    let taken = inside.link_by_index(link.index).unwrap().unwrap();
    route.move_link(link.index, &pod).unwrap();
    assert_eq!(route.link("moving").unwrap(), None);
    let moved = inside.link("moving").unwrap().unwrap();
    assert_ne!(moved.index, link.index);
    assert_eq!(inside.link_by_index(link.index).unwrap().unwrap().name, taken.name, "unchanged");
    inside.rename_link(moved.index, "net1").unwrap();
    assert_eq!(pod.run(|| ip_link("net1")["ifindex"].clone()).unwrap(), moved.index);
}

#[test]
fn move_and_rename_fails_when_the_name_is_in_use() {
    let mut route = enter_new_netns();
    let pod = new_netns();
    let mut inside = ferroband_kernel::RouteSocket::open_in(&pod).unwrap();
    let link = create_veth(&mut route, "moving", "stays");
    create_veth(&mut inside, "moving", "taken");
    route.set_up(link.index).unwrap();
    // Both the current and the requested name are taken in the target namespace, so the interface must not be
    // moved.
    let error = route.move_and_rename(link.index, &pod, "taken").unwrap_err();
    assert!(
        matches!(&error, ferroband_kernel::Error::NameTaken { interface } if interface == "taken"),
        "{error:?}"
    );
    assert_eq!(route.link("moving").unwrap().unwrap().index, link.index);
    route.move_and_rename(link.index, &pod, "net1").unwrap();
    let moved = inside.link("net1").unwrap().unwrap();
    assert_eq!((moved.address, moved.up), (link.address, false));
    assert_eq!(pod.run(|| ip_link("net1")["ifindex"].clone()).unwrap(), moved.index);
}

#[test]
fn alias_is_kept_when_a_link_moves() {
    let mut route = enter_new_netns();
    let pod = new_netns();
    let link = create_veth(&mut route, "one", "two");
    route.set_alias(link.index, "0000:86:00.2").unwrap();
    assert_eq!(ip_link("one")["ifalias"], "0000:86:00.2");
    route.move_link(link.index, &pod).unwrap();
    let mut inside = ferroband_kernel::RouteSocket::open_in(&pod).unwrap();
    let moved = inside.link("one").unwrap().unwrap();
    inside.rename_link(moved.index, "net1").unwrap();
    assert_eq!(inside.link("net1").unwrap().unwrap().alias.as_deref(), Some("0000:86:00.2"));
    let left = route.link("two").unwrap().unwrap();
    assert!(left.parent_netns.is_some(), "the peer is in another namespace");
    assert_eq!(left.device, None);
}

#[test]
fn link_counters_match_ip() {
    let mut route = enter_new_netns();
    let lo = route.link("lo").unwrap().unwrap();
    route.set_up(lo.index).unwrap();
    let ping =
        std::process::Command::new("ping").args(["-c", "2", "-i", "0.2", "127.0.0.1"]).output().unwrap();
    assert!(ping.status.success());
    let links = route.links().unwrap();
    let traffic = links.iter().find(|link| link.name == "lo").unwrap().stats.unwrap();
    let shown = ip_json("-s link show dev lo");
    let counted = &shown[0]["stats64"];
    assert_eq!(
        (traffic.rx_packets, traffic.rx_bytes, traffic.tx_packets, traffic.tx_bytes),
        (
            counted["rx"]["packets"].as_u64().unwrap(),
            counted["rx"]["bytes"].as_u64().unwrap(),
            counted["tx"]["packets"].as_u64().unwrap(),
            counted["tx"]["bytes"].as_u64().unwrap()
        )
    );
    assert!(traffic.rx_packets >= 4);
}

#[test]
fn ethtool_statistics_of_veth_are_read() {
    let mut route = enter_new_netns();
    create_veth(&mut route, "one", "two");
    let value = |interface: &str| {
        let all = statistics(interface, None).unwrap();
        all.into_iter().find(|(name, _)| name == "peer_ifindex").map(|(_, value)| value)
    };
    // The first statistic of veth is the index of its peer.
    assert_eq!(value("one"), ip_link("two")["ifindex"].as_u64());
    assert_eq!(value("two"), ip_link("one")["ifindex"].as_u64());
    let other = new_netns();
    let error = statistics("one", Some(&other)).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENODEV), "in another namespace");
}
