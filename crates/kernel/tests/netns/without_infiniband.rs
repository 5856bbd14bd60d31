//! Tests of the errors that a kernel without InfiniBand returns.

use super::fixture::{create_veth, enter_new_netns, ip_link, ip_link_names};
use ferroband_kernel::rtnetlink::{GuidKind, VfLinkState};
use ferroband_kernel::{
    Errno, Error, Hardware, Host, IpoibChild, IpoibMode, Link, LinuxHost, NetnsMode, tap,
};
use ferroband_model::{FaultCode, Guid, PKey};

// Case: cni 18
#[test]
fn missing_parent_is_reported() {
    enter_new_netns();
    let error = LinuxHost::default().ipoib_parent("ib0").unwrap_err();
    assert!(matches!(&error, Error::NoParent { interface } if interface == "ib0"), "{error:?}");
    assert_eq!(error.fault().code, FaultCode::NoParent);
}

// Case: cni 18
#[test]
fn parent_of_another_kind_is_reported_with_its_kind() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "eth7", "peer");
    route.add_altname(link.index, "ib0").unwrap();
    for (name, expected) in [("eth7", "veth"), ("ib0", "veth"), ("lo", "loopback")] {
        match LinuxHost::default().ipoib_parent(name) {
            Err(Error::NotIpoib { interface, kind }) => {
                assert_eq!((interface.as_str(), kind.as_str()), (name, expected));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn ipoib_child_without_kernel_module_fails_with_an_explanation() {
    let mut route = enter_new_netns();
    let parent = create_veth(&mut route, "eth7", "peer");
    let child = IpoibChild { parent: parent.index, pkey: PKey::DEFAULT, mode: IpoibMode::Datagram };
    match LinuxHost::default().create_ipoib_child("net1", &child) {
        Err(Error::InterfaceRequest { interface, errno, message, .. }) => {
            assert_eq!(interface, "net1");
            // If ib_ipoib is loaded, the kernel knows the type but rejects the Ethernet parent with EINVAL.
            match errno {
                Errno::EOPNOTSUPP => assert!(message.unwrap().contains("Unknown device type")),
                other => assert_eq!(other, Errno::EINVAL),
            }
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(ip_link_names().len(), 2);
}

#[test]
fn tap_can_have_link_type_infiniband() {
    let mut route = enter_new_netns();
    tap::create("ibs5f0", Link::ARPHRD_INFINIBAND).unwrap();
    let link = route.link("ibs5f0").unwrap().unwrap();
    assert_eq!((link.link_type, link.kind.as_deref()), (Link::ARPHRD_INFINIBAND, Some("tun")));
    assert_eq!(ip_link("ibs5f0")["link_type"], "infiniband");
    let error = tap::create("ibs5f0", Link::ARPHRD_INFINIBAND).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EBUSY), "{error}");
    for name in ["", "a-name-of-sixteen", "tap%d"] {
        assert_eq!(tap::create(name, 1).unwrap_err().errno(), Some(Errno::EINVAL), "{name:?}");
    }
    assert_eq!(ip_link_names(), ["ibs5f0"]);
}

/// A veth has no virtual functions. The kernel returns EOPNOTSUPP after its policy has checked the length of every
/// attribute: with the GUID at a wrong offset it would return ERANGE.
#[test]
fn vf_requests_pass_the_attribute_policy_of_the_kernel() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "eth7", "peer");
    let guid = Guid::new(0x0200_0000_0000_0101);
    for attempt in [
        route.set_vf_guid(link.index, 3, GuidKind::Node, guid),
        route.set_vf_guid(link.index, 3, GuidKind::Port, guid),
        route.set_vf_link_state(link.index, 3, VfLinkState::Enable),
    ] {
        match attempt {
            Err(Error::InterfaceRequest { interface, errno, doing, .. }) => {
                assert_eq!((interface.as_str(), errno), ("eth7", Errno::EOPNOTSUPP));
                assert!(doing.contains("of virtual function 3"), "{doing}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(route.vfs(link.index).unwrap(), []);
    assert_eq!(route.vfs(99_999).unwrap_err().errno(), Some(Errno::ENODEV));
}

/// Skipped if the kernel supports RDMA, as in the VM of the `vm` test tier.
#[test]
fn kernel_without_rdma_returns_no_rdma() {
    if ferroband_kernel::RdmaSocket::open().is_ok() {
        return;
    }
    enter_new_netns();
    let linux = LinuxHost::default();
    let other = super::fixture::new_netns();
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
