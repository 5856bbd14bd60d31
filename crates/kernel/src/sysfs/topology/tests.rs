//! Tests of topology, counters and drivers, on trees with the kernel's sysfs layout.

use super::{Distance, Proximity};
use crate::sysfs::{counters, driver, gpu, infiniband, net, pci, topology};
use crate::{Errno, Root};
use ferroband_model::{FaultCode, PciAddress};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const HCA: &str = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

/// Creates a sysfs tree with functions, each as (path below `devices`, vendor, class, NUMA node).
fn tree(functions: &[(&str, &str, &str, &str)]) -> (TempDir, Root) {
    let directory = tempfile::tempdir().unwrap();
    let sys = directory.path().join("sys");
    for (path, vendor, class, numa) in functions {
        let device = sys.join("devices").join(path);
        put(&device.join("vendor"), vendor);
        put(&device.join("device"), "0x2330\n");
        put(&device.join("class"), class);
        put(&device.join("numa_node"), numa);
        let name = device.file_name().unwrap().to_owned();
        fs::create_dir_all(sys.join("bus/pci/devices")).unwrap();
        symlink(format!("../../../devices/{path}"), sys.join("bus/pci/devices").join(name)).unwrap();
    }
    let root = Root::at(directory.path());
    (directory, root)
}

/// Creates the sysfs tree of a host with an adapter and five GPUs: on the same switch as the adapter, two switches
/// away, on the same root complex, on the same NUMA node, and on the other NUMA node. The host also has a display
/// controller of another vendor and an audio device.
fn machine() -> (TempDir, Root) {
    tree(&[
        (HCA, "0x15b3", "0x020700", "0"),
        ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0", "0x10de", "0x030200", "0"),
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1c:00.0/0000:1d:00.0/0000:1e:00.0",
            "0x10de",
            "0x030200",
            "0",
        ),
        ("pci0000:15/0000:15:02.0/0000:20:00.0", "0x10de", "0x030000", "0"),
        ("pci0000:37/0000:37:01.0/0000:38:00.0", "0x10de", "0x030200", "0"),
        ("pci0000:97/0000:97:01.0/0000:98:00.0", "0x10de", "0x030200", "1"),
        ("pci0000:97/0000:97:02.0/0000:99:00.0", "0x1a03", "0x030000", "1"),
        ("pci0000:97/0000:97:03.0/0000:9a:00.0", "0x10de", "0x040300", "1"),
    ])
}

#[test]
fn location_contains_root_complex_and_bridges() {
    let (_directory, root) = machine();
    let location = topology::locate(&root, address("0000:18:00.0")).unwrap().unwrap();
    assert_eq!(location.root_complex, "pci0000:15");
    let bridges: Vec<_> = location.bridges.iter().map(ToString::to_string).collect();
    assert_eq!(bridges, ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"]);
    assert_eq!((location.address, location.numa), (address("0000:18:00.0"), Some(0)));
    assert_eq!(topology::locate(&root, address("0000:ff:00.0")).unwrap(), None);
}

#[test]
fn gpus_are_sorted_by_distance() {
    let (_directory, root) = machine();
    let location = topology::locate(&root, address("0000:18:00.0")).unwrap().unwrap();
    let gpus = gpu::gpus(&root).unwrap();
    let sorted: Vec<_> = gpu::by_distance(&gpus, &location)
        .into_iter()
        .map(|(distance, gpu)| (gpu.address.to_string(), distance))
        .collect();
    let far = |address: &str, proximity, hops| (address.to_owned(), Distance { proximity, hops });
    assert_eq!(
        sorted,
        [
            far("0000:1b:00.0", Proximity::Switch, 2),
            far("0000:1e:00.0", Proximity::Bridges, 4),
            far("0000:20:00.0", Proximity::RootComplex, 4),
            far("0000:38:00.0", Proximity::NumaNode, 4),
            far("0000:98:00.0", Proximity::System, 4),
        ],
        "without display controllers of other vendors and audio devices"
    );
    let common: Vec<_> = location.common_bridges(&gpus[0].location).iter().map(ToString::to_string).collect();
    assert_eq!(common, ["0000:15:01.0", "0000:16:00.0"]);
    assert!(location.common_bridges(&gpus[4].location).is_empty());
}

#[test]
fn functions_on_unknown_numa_nodes_are_not_near_each_other() {
    let (_directory, root) = tree(&[
        ("pci0000:15/0000:15:01.0/0000:16:00.0", "0x15b3", "0x020700", "-1"),
        ("pci0000:37/0000:37:01.0/0000:38:00.0", "0x10de", "0x030200", "-1"),
    ]);
    let at = |text| topology::locate(&root, address(text)).unwrap().unwrap();
    assert_eq!(at("0000:16:00.0").distance(&at("0000:38:00.0")).proximity, Proximity::System);
}

#[test]
fn unreadable_counters_are_omitted() {
    let (directory, root) = machine();
    let device = directory.path().join("sys/class/infiniband/mlx5_0");
    put(&device.join("ports/1/counters/port_xmit_data"), "18446744073709551615\n");
    put(&device.join("ports/1/counters/symbol_error"), "3\n");
    put(&device.join("ports/1/counters/VL15_dropped"), "N/A (no PMA)\n");
    put(&device.join("ports/1/hw_counters/out_of_sequence"), "7\n");
    put(&device.join("ports/1/hw_counters/lifespan"), "10\n");
    put(&device.join("hw_counters/lifespan"), "10\n");
    put(&device.join("hw_counters/resets"), "1\n");
    let counters = counters::port(&root, "mlx5_0", 1).unwrap();
    let port: Vec<_> = counters.port.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(port, [("port_xmit_data", u64::MAX), ("symbol_error", 3)]);
    assert_eq!(counters.hardware.into_iter().collect::<Vec<_>>(), [("out_of_sequence".to_owned(), 7)]);
    assert_eq!(counters::device(&root, "mlx5_0").unwrap()["resets"], 1);
    assert_eq!(counters::port(&root, "mlx5_0", 2).unwrap(), counters::PortCounters::default());
}

#[test]
fn interface_is_read() {
    let (directory, root) = machine();
    let location = directory.path().join("sys/devices").join(HCA).join("net/ibs5f0");
    for (name, content) in
        [("type", "32\n"), ("mtu", "2044\n"), ("operstate", "up\n"), ("carrier", "1\n"), ("speed", "-1\n")]
    {
        put(&location.join(name), content);
    }
    symlink("../..", location.join("device")).unwrap();
    fs::create_dir_all(root.sys("class/net")).unwrap();
    symlink(format!("../../devices/{HCA}/net/ibs5f0"), root.sys("class/net/ibs5f0")).unwrap();
    let netdev = net::netdev(&root, "ibs5f0").unwrap().unwrap();
    assert_eq!((netdev.name.as_str(), netdev.mtu, netdev.speed), ("ibs5f0", Some(2044), None));
    assert_eq!(net::netdev(&root, "ib9").unwrap(), None);
}

#[test]
fn virtual_function_has_its_index_and_physical_function() {
    let (directory, root) = tree(&[
        ("pci0000:15/0000:16:00.0", "0x15b3", "0x020700", "0"),
        ("pci0000:15/0000:16:00.2", "0x15b3", "0x020700", "0"),
    ]);
    let devices = directory.path().join("sys/devices/pci0000:15");
    symlink("../0000:16:00.2", devices.join("0000:16:00.0/virtfn3")).unwrap();
    symlink("../0000:16:00.0", devices.join("0000:16:00.2/physfn")).unwrap();
    symlink("../../../kernel/iommu_groups/42", devices.join("0000:16:00.2/iommu_group")).unwrap();
    put(&devices.join("0000:16:00.2/infiniband/mlx5_4/node_guid"), "0000:0000:0000:0000\n");
    let (pf, vf) = (address("0000:16:00.0"), address("0000:16:00.2"));
    assert_eq!(pci::physical_function(&root, vf).unwrap(), Some((pf, 3)));
    assert_eq!(pci::physical_function(&root, pf).unwrap(), None);
    assert_eq!(pci::iommu_group(&root, vf).unwrap(), Some(42));
    assert_eq!(infiniband::device_names_of_function(&root, vf).unwrap(), ["mlx5_4"]);
    assert!(infiniband::device_names_of_function(&root, pf).unwrap().is_empty());
}

#[test]
fn drivers_are_bound_and_unbound_through_sysfs() {
    let (directory, root) = machine();
    let function = address("0000:18:00.0");
    let drivers = directory.path().join("sys/bus/pci/drivers");
    put(&drivers.join("mlx5_core/bind"), "");
    put(&drivers.join("mlx5_core/unbind"), "");
    put(&directory.path().join("sys/bus/pci/drivers_probe"), "");
    let device = directory.path().join("sys/devices").join(HCA);
    put(&device.join("driver_override"), "(null)\n");
    put(&device.join("sriov_numvfs"), "0\n");
    let read = |path: &Path| fs::read_to_string(path).unwrap();

    driver::unbind(&root, function).unwrap();
    assert_eq!(read(&drivers.join("mlx5_core/unbind")), "", "no driver was bound");
    driver::bind(&root, function, "mlx5_core").unwrap();
    assert_eq!(read(&drivers.join("mlx5_core/bind")), "0000:18:00.0");
    symlink("../../../../../../bus/pci/drivers/mlx5_core", device.join("driver")).unwrap();
    driver::unbind(&root, function).unwrap();
    assert_eq!(read(&drivers.join("mlx5_core/unbind")), "0000:18:00.0");
    driver::set_override(&root, function, Some("vfio-pci")).unwrap();
    assert_eq!(read(&device.join("driver_override")), "vfio-pci\n");
    driver::probe(&root, function).unwrap();
    assert_eq!(read(&directory.path().join("sys/bus/pci/drivers_probe")), "0000:18:00.0");
    driver::set_vf_count(&root, function, 4).unwrap();
    assert_eq!(read(&device.join("sriov_numvfs")), "4\n", "a single write, which overwrites the first bytes");

    let error = driver::bind(&root, function, "vfio-pci").unwrap_err();
    assert_eq!((error.errno(), error.fault().code), (Some(Errno::ENOENT), FaultCode::NoDevice));
    assert!(error.to_string().contains("bind driver vfio-pci to device 0000:18:00.0"), "{error}");
    let error = driver::set_vf_count(&root, address("0000:ff:00.0"), 4).unwrap_err();
    assert!(
        error.to_string().contains("set the number of virtual functions to 4 on device 0000:ff:00.0"),
        "{error}"
    );
}
