//! Tests of starting and stopping a simulation.

use super::fixture::{SimNodeFixture, ip_json};
use ferroband_kernel::Root;
use ferroband_kernel::rtnetlink::{LinkKind, NewLink, RouteSocket};
use ferroband_kernel::sysfs::chardev;
use ferroband_kernel::sysfs::infiniband::{self, PortState};
use ferroband_kernel::sysfs::pci;
use ferroband_model::{FaultCode, LinkLayer, PKey};
use ferroband_sim::{Error, Simulation};
use nix::libc::{O_NOCTTY, O_NONBLOCK};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

#[test]
fn sysfs_readers_accept_the_simulated_tree() {
    let node = SimNodeFixture::with_simulation("node-1");
    let host = node.host();
    let devices = infiniband::devices(host.root()).unwrap();
    let [device] = devices.as_slice() else { panic!("{devices:?}") };
    assert_eq!((device.name.as_str(), device.netdevs.as_slice()), ("mlx5_0", &["ibs5f0".to_owned()][..]));
    let address = device.pci.unwrap();
    assert_eq!(address.to_string(), "0000:86:00.0");
    let [port] = device.ports.as_slice() else { panic!("{:?}", device.ports) };
    assert_eq!((port.link_layer, port.state), (Some(LinkLayer::InfiniBand), PortState::Active));
    assert_eq!(port.rate.as_deref(), Some("100 Gb/sec (4X EDR)"));
    assert_eq!(port.pkeys, [PKey::DEFAULT]);
    let guid = port.guid.unwrap();
    assert!(!guid.is_unset() && Some(guid) != device.node_guid);
    let hardware_address = fs::read_to_string(host.root().sys("class/net/ibs5f0/address")).unwrap();
    assert!(hardware_address.trim().ends_with(&guid.to_string()), "{hardware_address}");
    let function = pci::function(host.root(), address).unwrap().unwrap();
    assert_eq!((function.vendor, function.device, function.class), (0x15b3, 0x1017, 0x02_0700));
    assert_eq!((function.driver.as_deref(), function.numa), (Some("mlx5_core"), Some(0)));
    assert_eq!((function.total_vfs, function.vfs), (16, 0));
    assert_eq!(function.netdevs, ["ibs5f0"]);
    let other = SimNodeFixture::with_simulation("node-2");
    let other = infiniband::devices(other.host().root()).unwrap();
    assert_ne!((other[0].node_guid, other[0].ports[0].guid), (device.node_guid, Some(guid)));
}

#[test]
fn character_devices_can_be_opened() {
    let node = SimNodeFixture::with_simulation("node-1");
    let host = node.host();
    let files = chardev::of_device(host.root(), "mlx5_0").unwrap();
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["uverbs0", "umad0", "issm0"]);
    let classes =
        ["infiniband_verbs/uverbs0", "infiniband_mad/umad0", "infiniband_mad/issm0", "misc/rdma_cm"];
    for (class, private) in classes.into_iter().zip([false, true, true, false]) {
        let name = class.split_once('/').unwrap().1;
        let path = host.root().dev("infiniband").join(name);
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.file_type().is_char_device());
        let number = metadata.rdev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        assert_eq!((major, (1..=63).contains(&minor)), (4, true));
        let shown = fs::read_to_string(host.root().sys("class").join(class).join("dev")).unwrap();
        assert_eq!(shown.trim(), format!("{major}:{minor}"));
        assert_eq!(metadata.mode() & 0o777, if private { 0o600 } else { 0o666 }, "{name}");
        let open = fs::OpenOptions::new().read(true).custom_flags(O_NOCTTY | O_NONBLOCK).open(&path);
        assert!(open.is_ok(), "{name}: {open:?}");
    }
}

#[test]
fn interface_has_link_type_infiniband_and_an_altname() {
    let node = SimNodeFixture::with_simulation("node-1");
    let shown = node.run(|| ip_json("link show dev ib0"))[0].clone();
    assert_eq!((&shown["ifname"], &shown["altnames"]), (&"ibs5f0".into(), &serde_json::json!(["ib0"])));
    assert_eq!((&shown["link_type"], &shown["mtu"]), (&"infiniband".into(), &2044.into()));
    assert!(shown["flags"].as_array().unwrap().contains(&"UP".into()), "{shown}");
}

#[test]
fn marker_has_mode_0600_and_contains_the_root() {
    let node = SimNodeFixture::with_simulation("node-1");
    let path = node.root.run("ferroband/simulation.json");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let marker: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(marker["root"], "/var/lib/ferroband/sim");
    assert_eq!((&marker["uplink"], &marker["seed"]), (&serde_json::Value::Null, &"node-1".into()));
    assert_eq!(fs::metadata(node.root.state("")).unwrap().mode() & 0o777, 0o700);
    assert!(node.host().is_simulated());
}

#[test]
fn hardware_is_real_without_a_marker() {
    let node = SimNodeFixture::new();
    assert!(!node.host().is_simulated());
    fs::create_dir_all(node.root.run("ferroband")).unwrap();
    fs::write(node.root.run("ferroband/simulation.json"), "{}").unwrap();
    let error = ferroband_sim::host(&node.root).err().unwrap();
    assert!(
        matches!(error, Error::InvalidFile { .. }),
        "a broken marker is not taken for real hardware: {error}"
    );
}

#[test]
fn up_is_idempotent() {
    let node = SimNodeFixture::with_simulation("node-1");
    let before = (snapshot(node.root.base()), node.run(|| ip_json("link show")));
    node.up("node-1", None).unwrap();
    assert_eq!((snapshot(node.root.base()), node.run(|| ip_json("link show"))), before);
    let error = node.up("node-2", None).unwrap_err();
    assert!(matches!(&error, Error::AlreadyUp { seed, .. } if seed == "node-1"), "{error}");
    assert_eq!(snapshot(node.root.base()), before.0);
}

#[test]
fn down_is_idempotent_and_removes_everything() {
    let node = SimNodeFixture::with_simulation("node-1");
    let pod = node.create_ipoib_pod(0xffff, "10.0.0.1/24");
    assert_eq!(node.link_names(), ["fbk7fff", "fbv0", "ibs5f0"]);
    for _ in 0..2 {
        node.down().unwrap();
        assert_eq!(node.link_names(), [""; 0]);
        assert_eq!(pod.run(|| ip_json("link show").as_array().unwrap().len()).unwrap(), 1);
        assert!(!node.root.state("sim").exists());
        assert!(!node.root.run("ferroband/simulation.json").exists());
    }
    node.up("node-2", None).unwrap();
}

#[test]
fn up_recreates_interfaces_after_a_reboot() {
    let mut node = SimNodeFixture::with_simulation("node-1");
    // A new namespace simulates the reboot: once with a /run that survives it, and once with an empty /run.
    for kept in [true, false] {
        node.netns = super::fixture::new_netns();
        if !kept {
            fs::remove_dir_all(node.root.run("")).unwrap();
        }
        node.up("node-1", None).unwrap();
        assert_eq!(node.link_names(), ["ibs5f0"]);
    }
    node.netns = super::fixture::new_netns();
    node.down().unwrap();
    assert!(!node.root.state("sim").exists());
}

#[test]
fn up_and_down_work_after_an_interrupted_up() {
    // Without its marker file, the simulation is in the state that an `up` leaves if it is killed just before
    // it writes that file. Both `up` and `down` must succeed.
    let node = SimNodeFixture::with_simulation("node-1");
    fs::remove_file(node.root.run("ferroband/simulation.json")).unwrap();
    node.up("node-9", None).unwrap();
    assert_eq!(Simulation::find(&node.root).unwrap().unwrap().seed, "node-9");
    fs::remove_file(node.root.run("ferroband/simulation.json")).unwrap();
    node.down().unwrap();
    assert!(node.link_names().is_empty());
    // Someone deletes the state files of a running simulation. `up` must create them again.
    node.up("node-1", None).unwrap();
    fs::remove_dir_all(node.root.state("")).unwrap();
    node.up("node-1", None).unwrap();
    assert_eq!(infiniband::devices(node.host().root()).unwrap().len(), 1);
    node.down().unwrap();
    assert!(node.link_names().is_empty());
    // The sysfs tree is incomplete, as after an `up` that was killed. The next `up` must complete the tree.
    fs::create_dir_all(node.root.state("sim/sys/class/infiniband")).unwrap();
    node.up("node-1", None).unwrap();
    assert_eq!(infiniband::devices(node.host().root()).unwrap().len(), 1);
}

#[test]
fn existing_interface_is_neither_used_nor_removed() {
    let node = SimNodeFixture::new();
    node.run(|| {
        RouteSocket::open().unwrap().create_link(&NewLink::new("ibs5f0", LinkKind::Veth { peer: "peer" }))
    })
    .unwrap();
    let error = node.up("node-1", None).unwrap_err();
    assert!(
        matches!(&error, Error::NameTaken { netdev, kind } if netdev == "ibs5f0" && kind == "veth"),
        "{error}"
    );
    assert_eq!(error.fault().code, FaultCode::NameTaken);
    assert!(Simulation::find(&node.root).unwrap().is_none());
    assert!(!node.root.state("sim").exists(), "a failed start is rolled back");
    node.down().unwrap();
    assert_eq!(node.link_names(), ["ibs5f0", "peer"]);
}

#[test]
fn altname_conflict_rolls_everything_back() {
    let node = SimNodeFixture::new();
    node.run(|| {
        RouteSocket::open().unwrap().create_link(&NewLink::new("ib0", LinkKind::Veth { peer: "peer" }))
    })
    .unwrap();
    let error = node.up("node-1", None).unwrap_err();
    assert_eq!((error.fault().code, error.fault().what.as_str()), (FaultCode::NameTaken, "interface ib0"));
    assert_eq!(node.link_names(), ["ib0", "peer"]);
    assert!(!node.root.state("sim").exists());
}

#[test]
fn trees_can_be_moved() {
    let node = SimNodeFixture::with_simulation("node-1");
    let moved = node.root.base().with_extension("moved");
    fs::rename(node.root.base(), &moved).unwrap();
    let root = Root::at(&moved);
    let host = ferroband_sim::host(&root).unwrap();
    let devices = infiniband::devices(host.root()).unwrap();
    assert_eq!(devices[0].pci.unwrap().to_string(), "0000:86:00.0");
    fs::rename(&moved, node.root.base()).unwrap();
}

/// Returns the inode and the change time of each file below a directory.
fn snapshot(directory: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    let mut files_found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let path = entry.path();
        files_found
            .insert(path.display().to_string(), (metadata.ino(), metadata.ctime(), metadata.ctime_nsec()));
        if metadata.is_dir() {
            files_found.extend(snapshot(&path));
        }
    }
    files_found
}
