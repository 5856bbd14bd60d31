//! Tests of the sysfs readers, on trees with the kernel's layout.

use super::chardev::{self, CharDeviceRole};
use super::infiniband::{self, PortState};
use super::pci;
use crate::{Error, Root};
use ferroband_model::{Guid, LinkLayer, PKey};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// Creates the sysfs tree of a ConnectX adapter with two ports, of which the second is down, and two VFs,
/// whose indexes are in reverse order of their PCI addresses.
fn fixture() -> (TempDir, Root) {
    let directory = tempfile::tempdir().unwrap();
    let sys = directory.path().join("sys");
    let pf = sys.join("devices/pci0000:80/0000:80:02.0/0000:86:00.0");
    let files = [
        ("vendor", "0x15b3\n"),
        ("device", "0x1017\n"),
        ("class", "0x020700\n"),
        ("numa_node", "1\n"),
        ("sriov_totalvfs", "16\n"),
        ("sriov_numvfs", "2\n"),
        ("net/ibs5f0/type", "32\n"),
        ("infiniband/mlx5_0/node_guid", "248a:0703:00a1:b2c2\n"),
        ("infiniband/mlx5_0/fw_ver", "16.35.4030\n"),
        ("infiniband/mlx5_0/board_id", "MT_0000000008\n"),
        ("infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
        ("infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
        ("infiniband/mlx5_0/ports/1/phys_state", "5: LinkUp\n"),
        ("infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
        ("infiniband/mlx5_0/ports/1/lid", "0x2\n"),
        ("infiniband/mlx5_0/ports/1/sm_lid", "0x1\n"),
        ("infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:248a:0703:00a1:b2c3\n"),
        ("infiniband/mlx5_0/ports/1/pkeys/0", "0xffff\n"),
        ("infiniband/mlx5_0/ports/1/pkeys/1", "0x0000\n"),
        ("infiniband/mlx5_0/ports/1/pkeys/2", "0x8005\n"),
        ("infiniband/mlx5_0/ports/1/pkeys/10", "0x0007\n"),
        ("infiniband/mlx5_0/ports/2/state", "1: DOWN\n"),
        ("infiniband/mlx5_0/ports/2/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0000\n"),
        ("infiniband_verbs/uverbs0/ibdev", "mlx5_0\n"),
        ("infiniband_verbs/uverbs0/dev", "231:192\n"),
        ("infiniband_mad/umad0/ibdev", "mlx5_0\n"),
        ("infiniband_mad/umad0/port", "1\n"),
        ("infiniband_mad/umad0/dev", "231:0\n"),
        ("infiniband_mad/issm1/ibdev", "mlx5_0\n"),
        ("infiniband_mad/issm1/port", "2\n"),
        ("infiniband_mad/umad7/ibdev", "mlx5_1\n"),
    ];
    for (name, content) in files {
        put(&pf.join(name), content);
    }
    for (index, function) in ["0000:86:00.2", "0000:86:00.1"].into_iter().enumerate() {
        let vf = pf.parent().unwrap().join(function);
        put(&vf.join("vendor"), "0x15b3\n");
        put(&vf.join("device"), "0x1018\n");
        put(&vf.join("numa_node"), "-1\n");
        link(&format!("../{function}"), &pf.join(format!("virtfn{index}")));
        link("../0000:86:00.0", &vf.join("physfn"));
        link(
            &format!("../../../devices/pci0000:80/0000:80:02.0/{function}"),
            &sys.join("bus/pci/devices").join(function),
        );
    }
    let device = "../../devices/pci0000:80/0000:80:02.0/0000:86:00.0";
    link("../../../0000:86:00.0", &pf.join("infiniband/mlx5_0/device"));
    link("../../../../bus/pci/drivers/mlx5_core", &pf.join("driver"));
    link(&format!("../{device}"), &sys.join("bus/pci/devices/0000:86:00.0"));
    link(&format!("{device}/infiniband/mlx5_0"), &sys.join("class/infiniband/mlx5_0"));
    link(&format!("{device}/infiniband_verbs/uverbs0"), &sys.join("class/infiniband_verbs/uverbs0"));
    put(&sys.join("class/infiniband_verbs/abi_version"), "6\n");
    for name in ["umad0", "issm1", "umad7"] {
        link(&format!("{device}/infiniband_mad/{name}"), &sys.join("class/infiniband_mad").join(name));
    }
    put(&sys.join("class/misc/rdma_cm/dev"), "10:58\n");
    put(&directory.path().join("dev/infiniband/rdma_cm"), "");
    let root = Root::at(directory.path());
    (directory, root)
}

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn link(target: &str, path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

#[test]
fn rdma_device_is_read_with_its_ports() {
    let (_directory, root) = fixture();
    let devices = infiniband::devices(&root).unwrap();
    let [device] = devices.as_slice() else { panic!("{devices:?}") };
    assert_eq!(device.name, "mlx5_0");
    assert_eq!(device.node_guid, Some(Guid::new(0x248a_0703_00a1_b2c2)));
    assert_eq!(device.firmware.as_deref(), Some("16.35.4030"));
    assert_eq!(device.pci.unwrap().to_string(), "0000:86:00.0");
    assert_eq!(device.netdevs, ["ibs5f0"]);
    let [one, two] = device.ports.as_slice() else { panic!("{:?}", device.ports) };
    assert_eq!((one.number, one.link_layer, one.state), (1, Some(LinkLayer::InfiniBand), PortState::Active));
    assert_eq!(one.phys_state.as_deref(), Some("LinkUp"));
    assert_eq!(one.rate.as_deref(), Some("100 Gb/sec (4X EDR)"));
    assert_eq!((one.lid, one.sm_lid), (Some(2), Some(1)));
    assert_eq!(one.guid, Some(Guid::new(0x248a_0703_00a1_b2c3)));
    assert_eq!(one.pkeys, [PKey::DEFAULT, PKey::new(0x8005).unwrap(), PKey::new(7).unwrap()]);
    assert_eq!((two.number, two.link_layer, two.state, two.guid), (2, None, PortState::Down, None));
    assert!(two.pkeys.is_empty());
}

#[test]
fn character_devices_of_other_rdma_devices_are_excluded() {
    let (_directory, root) = fixture();
    let files = chardev::of_device(&root, "mlx5_0").unwrap();
    let found: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.role)).collect();
    assert_eq!(
        found,
        [
            ("uverbs0", CharDeviceRole::Verbs),
            ("umad0", CharDeviceRole::Management { port: 1 }),
            ("issm1", CharDeviceRole::SubnetManager { port: 2 }),
        ]
    );
}

#[test]
fn physical_and_virtual_functions_are_read() {
    let (_directory, root) = fixture();
    let functions = pci::functions(&root).unwrap();
    assert_eq!(functions.len(), 3);
    let pf = &functions[0];
    assert_eq!((pf.vendor, pf.device, pf.class), (0x15b3, 0x1017, 0x02_0700));
    assert_eq!(pf.driver.as_deref(), Some("mlx5_core"));
    assert_eq!((pf.numa, pf.total_vfs, pf.vfs), (Some(1), 16, 2));
    let order: Vec<_> = pf.virtual_functions.iter().map(ToString::to_string).collect();
    assert_eq!(order, ["0000:86:00.2", "0000:86:00.1"], "by index, not by address");
    let vf = &functions[1];
    assert_eq!(vf.physical_function, Some(pf.address));
    assert_eq!((vf.numa, vf.driver.as_ref(), vf.total_vfs), (None, None, 0));
}

#[test]
fn machine_without_rdma_devices_has_an_empty_inventory() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::at(directory.path());
    assert!(infiniband::devices(&root).unwrap().is_empty());
    assert!(pci::functions(&root).unwrap().is_empty());
    assert!(infiniband::device(&root, "mlx5_0").unwrap().is_none());
    assert!(pci::function(&root, "0000:86:00.0".parse().unwrap()).unwrap().is_none());
}

#[test]
fn malformed_attribute_is_reported_with_its_path() {
    let (_directory, root) = fixture();
    let guid = root.sys("class/infiniband/mlx5_0/node_guid");
    fs::write(&guid, "248a\n").unwrap();
    match infiniband::device(&root, "mlx5_0") {
        Err(Error::MalformedFile { path, .. }) => assert_eq!(path, guid),
        other => panic!("{other:?}"),
    }
    let vendor = root.sys("bus/pci/devices/0000:86:00.0/vendor");
    fs::write(&vendor, "0x115b3\n").unwrap();
    match pci::functions(&root) {
        Err(Error::NotANumber { path, text }) => assert_eq!((path, text.as_str()), (vendor, "71091")),
        other => panic!("{other:?}"),
    }
}

/// Replaces an attribute with one whose read fails. A file system cannot be made to return EIO as a hanging adapter
/// does, but the read of a directory fails as well.
fn break_attribute(path: &Path) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path).unwrap();
}

#[test]
fn device_that_cannot_be_read_does_not_hide_the_others() {
    let (directory, root) = fixture();
    let sys = directory.path().join("sys");
    let second = sys.join("devices/pci0000:80/0000:87:00.0");
    put(&second.join("infiniband/mlx5_9/node_guid"), "248a:0703:00a1:ffff\n");
    put(&second.join("infiniband/mlx5_9/ports/1/state"), "4: ACTIVE\n");
    link("../..", &second.join("infiniband/mlx5_9/device"));
    fs::create_dir_all(sys.join("class/infiniband")).unwrap();
    link("../../devices/pci0000:80/0000:87:00.0/infiniband/mlx5_9", &sys.join("class/infiniband/mlx5_9"));
    break_attribute(&root.sys("class/infiniband/mlx5_0/ports/1/state"));
    let devices = infiniband::devices(&root).unwrap();
    let summary: Vec<_> = devices.iter().map(|d| (d.name.as_str(), d.error.is_some())).collect();
    assert_eq!(summary, [("mlx5_0", true), ("mlx5_9", false)]);
    let sick = &devices[0];
    assert_eq!(sick.pci.map(|pci| pci.to_string()).as_deref(), Some("0000:86:00.0"));
    assert_eq!((sick.node_guid, sick.ports.len(), sick.files.len()), (None, 0, 3));
    assert!(sick.error.as_ref().unwrap().contains("mlx5_0/ports/1/state"), "{sick:?}");
    assert_eq!(devices[1].ports[0].state, PortState::Active);
    assert!(infiniband::device(&root, "mlx5_0").is_err(), "a single device is an error of its own");
}
