//! What a kernel without InfiniBand says to requests for it.

use super::bench::{fresh, names, shown, wire};
use ferroband_kernel::{Errno, Error, Host, IpoibChild, IpoibMode, Link, Linux, tap};
use ferroband_model::{FaultCode, PKey};

#[test]
fn cni_18_a_parent_that_is_not_there() {
    fresh();
    let error = Linux::default().ipoib_parent("ib0").unwrap_err();
    assert!(matches!(&error, Error::NoParent { interface } if interface == "ib0"), "{error:?}");
    assert_eq!(error.fault().code, FaultCode::NoParent);
}

#[test]
fn cni_18_a_parent_of_another_kind_is_named() {
    let mut route = fresh();
    let link = wire(&mut route, "eth7", "peer");
    route.add_altname(link.index, "ib0").unwrap();
    for (name, expected) in [("eth7", "veth"), ("ib0", "veth"), ("lo", "loopback")] {
        match Linux::default().ipoib_parent(name) {
            Err(Error::NotIpoib { interface, kind }) => {
                assert_eq!((interface.as_str(), kind.as_str()), (name, expected));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_child_without_the_module_is_refused_with_words() {
    let mut route = fresh();
    let parent = wire(&mut route, "eth7", "peer");
    let child = IpoibChild { parent: parent.index, pkey: PKey::DEFAULT, mode: IpoibMode::Datagram };
    match Linux::default().create_ipoib_child("net1", &child) {
        Err(Error::Refused { interface, errno, message, .. }) => {
            assert_eq!(interface, "net1");
            // With ib_ipoib loaded the kernel refuses the parent instead.
            match errno {
                Errno::EOPNOTSUPP => assert!(message.unwrap().contains("Unknown device type")),
                other => assert_eq!(other, Errno::EINVAL),
            }
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(names().len(), 2);
}

#[test]
fn a_tap_can_say_that_it_is_infiniband() {
    let mut route = fresh();
    tap::create("ibs5f0", Link::INFINIBAND).unwrap();
    let link = route.link("ibs5f0").unwrap().unwrap();
    assert_eq!((link.link_type, link.kind.as_deref()), (Link::INFINIBAND, Some("tun")));
    assert_eq!(shown("ibs5f0")["link_type"], "infiniband");
    let error = tap::create("ibs5f0", Link::INFINIBAND).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EBUSY), "{error}");
    for name in ["", "a-name-of-sixteen", "tap%d"] {
        assert_eq!(tap::create(name, 1).unwrap_err().errno(), Some(Errno::EINVAL), "{name:?}");
    }
    assert_eq!(names(), ["ibs5f0"]);
}
