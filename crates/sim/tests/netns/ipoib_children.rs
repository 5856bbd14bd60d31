//! Tests of IPoIB children on one node.

use super::fixture::{SimNodeFixture, ip_json, reaches};
use ferroband_kernel::rtnetlink::{LinkKind, NewLink, RouteSocket};
use ferroband_kernel::{Errno, Error, IpoibChild, IpoibMode};
use ferroband_model::PKey;
use std::collections::BTreeSet;

fn child(parent: u32, pkey: u16) -> IpoibChild {
    IpoibChild { parent, pkey: PKey::new(pkey).unwrap(), mode: IpoibMode::Datagram }
}

#[test]
fn parent_is_found_by_name_and_altname() {
    let node = SimNodeFixture::with_simulation("node-1");
    let host = node.host();
    for name in ["ib0", "ibs5f0"] {
        let parent = node.run(|| host.ipoib_parent(name)).unwrap();
        assert_eq!((parent.name.as_str(), parent.pkey, parent.mtu), ("ibs5f0", PKey::DEFAULT, 2044));
        assert_eq!(parent.mode, IpoibMode::Datagram);
    }
}

#[test]
fn invalid_parents_are_rejected_like_on_real_hardware() {
    let node = SimNodeFixture::with_simulation("node-1");
    let host = node.host();
    node.run(|| {
        RouteSocket::open().unwrap().create_link(&NewLink::new("eth7", LinkKind::Veth { peer: "peer" }))
    })
    .unwrap();
    assert!(
        matches!(node.run(|| host.ipoib_parent("ib1")), Err(Error::NoParent { interface }) if interface == "ib1")
    );
    for (name, expected) in [("eth7", "veth"), ("lo", "loopback")] {
        match node.run(|| host.ipoib_parent(name)) {
            Err(Error::NotIpoib { interface, kind }) => {
                assert_eq!((interface.as_str(), kind.as_str()), (name, expected));
            }
            other => panic!("{other:?}"),
        }
    }
    let eth7 = node.run(|| RouteSocket::open().unwrap().link("eth7").unwrap().unwrap().index);
    let error = node.run(|| host.create_ipoib_child("net1", &child(eth7, 0xffff))).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EINVAL));
    let error = node.run(|| host.create_ipoib_child("net1", &child(99_999, 0xffff))).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENODEV));
    assert_eq!(node.link_names(), ["eth7", "ibs5f0", "peer"], "nothing remains");
}

#[test]
fn child_is_down_with_ipoib_mtu_and_is_deleted_completely() {
    let node = SimNodeFixture::with_simulation("node-1");
    let host = node.host();
    let parent = node.run(|| host.ipoib_parent("ib0")).unwrap().index;
    node.run(|| host.create_ipoib_child("child", &child(parent, 0xffff))).unwrap();
    let shown = node.run(|| ip_json("link show dev child"))[0].clone();
    assert_eq!((&shown["mtu"], &shown["operstate"]), (&2044.into(), &"DOWN".into()));
    assert!(!shown["flags"].as_array().unwrap().contains(&"UP".into()), "{shown}");
    let taken = node.run(|| host.create_ipoib_child("child", &child(parent, 0xffff))).unwrap_err();
    assert!(matches!(&taken, Error::NameTaken { interface } if interface == "child"), "{taken}");
    assert_eq!(node.link_names(), ["child", "fbk7fff", "fbv0", "ibs5f0"]);
    node.run(|| {
        let mut route = RouteSocket::open().unwrap();
        let child = route.link("child").unwrap().unwrap();
        route.delete_link(child.index).unwrap();
    });
    assert_eq!(node.link_names(), ["fbk7fff", "ibs5f0"]);
}

#[test]
fn child_is_deleted_with_the_pod() {
    let node = SimNodeFixture::with_simulation("node-1");
    let pod = node.create_ipoib_pod(0xffff, "10.0.0.1/24");
    assert_eq!(node.link_names(), ["fbk7fff", "fbv0", "ibs5f0"]);
    drop(pod);
    // The kernel deletes namespaces asynchronously, so wait for up to five seconds.
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        node.link_names() == ["fbk7fff", "ibs5f0"]
    });
    assert!(gone, "{:?}", node.link_names());
}

#[test]
fn pods_reach_only_pods_of_their_partition() {
    let node = SimNodeFixture::with_simulation("node-1");
    let one = node.create_ipoib_pod(0xffff, "10.0.0.1/24");
    let _two = node.create_ipoib_pod(0x7fff, "10.0.0.2/24");
    let _other = node.create_ipoib_pod(0x8005, "10.0.0.3/24");
    // The largest payload is the MTU of 2044 minus 28 bytes of IPv4 and ICMP headers. Full and limited
    // members of the same partition must reach each other.
    assert!(reaches(&one, "10.0.0.2", 2016));
    assert!(!reaches(&one, "10.0.0.2", 2017), "the MTU is 2044");
    assert!(!reaches(&one, "10.0.0.3", 56));
}

#[test]
fn thirty_two_children_can_be_created_concurrently() {
    let node = SimNodeFixture::with_simulation("node-1");
    let host = node.host();
    let parent = node.run(|| host.ipoib_parent("ib0")).unwrap().index;
    let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..32)
            .map(|number| {
                let (host, node) = (&host, &node);
                let key = if number % 2 == 0 { 0xffff } else { 0x8005 };
                scope.spawn(move || {
                    node.run(|| host.create_ipoib_child(&format!("child{number}"), &child(parent, key)))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for result in results {
        result.unwrap();
    }
    let names: BTreeSet<String> = node.link_names().into_iter().collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("child")).count(), 32);
    assert_eq!(names.iter().filter(|name| name.starts_with("fbv")).count(), 32);
    assert_eq!(names.len(), 32 + 32 + 2 + 1, "{names:?}");
    let port = node.run(|| ip_json("link show master fbk0005"));
    assert_eq!(port.as_array().unwrap().len(), 16);
    node.down().unwrap();
    assert!(node.link_names().is_empty());
}
