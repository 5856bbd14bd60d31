//! What a kernel without InfiniBand says to requests for it.

use super::bench::{fresh, names, shown, wire};
use ferroband_kernel::route::{GuidKind, VfState};
use ferroband_kernel::{Errno, Error, Hardware, Host, IpoibChild, IpoibMode, Link, Linux, NetnsMode, tap};
use ferroband_model::{FaultCode, Guid, PKey};

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

/// A veth has no virtual functions. EOPNOTSUPP comes from after the kernel's policy, which knows the length
/// of every attribute: with the GUID in the wrong place it would be ERANGE.
#[test]
fn requests_about_virtual_functions_pass_the_kernels_policy() {
    let mut route = fresh();
    let link = wire(&mut route, "eth7", "peer");
    let guid = Guid::new(0x0200_0000_0000_0101);
    for attempt in [
        route.set_vf_guid(link.index, 3, GuidKind::Node, guid),
        route.set_vf_guid(link.index, 3, GuidKind::Port, guid),
        route.set_vf_state(link.index, 3, VfState::Enable),
    ] {
        match attempt {
            Err(Error::Refused { interface, errno, doing, .. }) => {
                assert_eq!((interface.as_str(), errno), ("eth7", Errno::EOPNOTSUPP));
                assert!(doing.contains("of virtual function 3"), "{doing}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(route.vfs(link.index).unwrap(), []);
    assert_eq!(route.vfs(99_999).unwrap_err().errno(), Some(Errno::ENODEV));
}

/// On a kernel without RDMA; the machine of the `vm` tier has it.
#[test]
fn a_machine_without_rdma_says_so() {
    if ferroband_kernel::Rdma::here().is_ok() {
        return;
    }
    fresh();
    let linux = Linux::default();
    let other = super::bench::another();
    for attempt in [
        linux.rdma_devices(None).map(drop),
        linux.rdma_devices(Some(&other)).map(drop),
        linux.rdma_netns_mode().map(drop),
        linux.set_rdma_netns_mode(NetnsMode::Exclusive),
        linux.move_rdma_device("mlx5_0", None, &other),
    ] {
        assert!(matches!(attempt, Err(Error::NoRdma)), "{attempt:?}");
    }
    let nowhere = "ffff:00:00.0".parse().unwrap();
    let error = linux.vfs(nowhere).unwrap_err();
    assert_eq!((error.errno(), error.fault().code), (Some(Errno::ENODEV), FaultCode::NoDevice));
    assert_eq!(linux.set_vf_count(nowhere, 1).unwrap_err().errno(), Some(Errno::ENOENT));
    assert!(linux.interfaces(nowhere, None).unwrap().is_empty());
    linux.unbind_driver(nowhere).unwrap();
    linux.refresh().unwrap();
}
