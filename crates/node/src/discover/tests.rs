use super::{DeviceClass, DiscoveryRoots, FunctionNetdev, Inventory, watch_inventory};
use ferroband_kernel::{LinuxHost, Root};
use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates an adapter in the sysfs tree under `base`, without device files.
fn plug(base: &Path) {
    let function = base.join("sys/devices/pci0000:80/0000:86:00.0");
    for (name, text) in
        [("vendor", "0x15b3\n"), ("device", "0x1017\n"), ("numa_node", "1\n"), ("sriov_totalvfs", "16\n")]
    {
        put(&function.join(name), text);
    }
    fs::create_dir_all(function.join("net/ibs5f0")).unwrap();
    fs::create_dir_all(base.join("sys/bus/pci/devices")).unwrap();
    symlink("../../../devices/pci0000:80/0000:86:00.0", base.join("sys/bus/pci/devices/0000:86:00.0"))
        .unwrap();
    let device = base.join("sys/class/infiniband/mlx5_0");
    put(&device.join("node_guid"), "b859:9f03:00a1:b2c4\n");
    put(&device.join("ports/1/state"), "4: ACTIVE\n");
    put(&device.join("ports/1/link_layer"), "InfiniBand\n");
    put(&device.join("ports/1/rate"), "100 Gb/sec (4X EDR)\n");
    put(&device.join("ports/1/pkeys/0"), "0xffff\n");
    symlink("../../../devices/pci0000:80/0000:86:00.0", device.join("device")).unwrap();
    put(&base.join("sys/class/infiniband_verbs/uverbs0/ibdev"), "mlx5_0\n");
}

#[test]
fn sysfs_is_read_and_only_existing_device_files_count() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    assert_eq!(Inventory::read(&root, false).unwrap(), Inventory::default());
    plug(dir.path());
    let inventory = Inventory::read(&root, true).unwrap();
    let [device] = inventory.devices.as_slice() else { panic!("{inventory:?}") };
    assert_eq!((device.name.as_str(), device.pci.as_deref()), ("mlx5_0", Some("0000:86:00.0")));
    assert_eq!((device.id.as_deref(), device.numa, device.vfs), (Some("15b3:1017"), Some(1), (0, 16)));
    assert_eq!(device.netdevs, ["ibs5f0"]);
    assert_eq!(
        (device.ports[0].state.as_str(), device.ports[0].rate.as_deref()),
        ("Active", Some("100 Gb/sec (4X EDR)"))
    );
    assert_eq!(device.uverbs(), None, "udev has not created it");
    put(&dir.path().join("dev/infiniband/uverbs0"), "");
    put(&dir.path().join("dev/infiniband/rdma_cm"), "");
    let inventory = Inventory::read(&root, true).unwrap();
    assert_eq!(inventory.devices[0].uverbs(), Some(dir.path().join("dev/infiniband/uverbs0").as_path()));
    assert_eq!(inventory.rdma_cm, Some(dir.path().join("dev/infiniband/rdma_cm")));
}

#[test]
fn only_infiniband_interfaces_of_physical_functions_are_ipoib_parents() {
    let mut inventory = crate::pools::fixture::node(2);
    for device in &mut inventory.devices {
        device.netdevs = vec![format!("net-{}", device.name)];
    }
    // mlx5_1 is an Ethernet port, mlx5_2 and mlx5_3 are virtual functions.
    assert_eq!(inventory.ipoib_parents().collect::<Vec<_>>(), ["net-mlx5_0"]);
}

#[test]
fn unreadable_device_is_in_the_inventory_with_its_error() {
    let dir = tempfile::tempdir().unwrap();
    plug(dir.path());
    let root = Root::at(dir.path());
    // The read of a directory fails, as the read from an adapter that hangs does.
    fs::create_dir_all(root.sys("class/infiniband/mlx5_0/fw_ver")).unwrap();
    let inventory = Inventory::read(&root, false).unwrap();
    let [device] = &inventory.devices[..] else { panic!("{inventory:?}") };
    assert_eq!((device.pci.as_deref(), device.ports.len()), (Some("0000:86:00.0"), 0));
    assert!(device.error.as_ref().unwrap().contains("fw_ver"), "{device:?}");
}

#[test]
fn functions_are_read_with_topology_and_devices() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    let bus = dir.path().join("sys/devices/pci0000:3a/0000:3a:00.0");
    let links = dir.path().join("sys/bus/pci/devices");
    fs::create_dir_all(&links).unwrap();
    let plug = |pci: &str, device: &str, class: &str| {
        let function = bus.join(pci);
        for (name, text) in
            [("vendor", "0x15b3\n"), ("device", device), ("class", class), ("numa_node", "-1\n")]
        {
            put(&function.join(name), text);
        }
        symlink(Path::new("../../../devices/pci0000:3a/0000:3a:00.0").join(pci), links.join(pci)).unwrap();
        function
    };
    let pf = plug("0000:3b:00.0", "0x1017\n", "0x020700\n");
    put(&pf.join("net/ibs1/type"), "32\n");
    for (index, pci) in ["0000:3b:00.2", "0000:3b:00.3"].iter().enumerate() {
        let vf = plug(pci, "0x1018\n", "0x020700\n");
        symlink("../0000:3b:00.0", vf.join("physfn")).unwrap();
        symlink(Path::new("..").join(pci), pf.join(format!("virtfn{index}"))).unwrap();
        put(&vf.join("infiniband").join(format!("mlx5_{index}")).join("ports/1/pkeys/0"), "0x7fff\n");
    }
    let gpu = plug("0000:3c:00.0", "0x20b0\n", "0x030200\n");
    put(&gpu.join("acpi_index"), "4\n");
    plug("0000:3d:00.0", "0x0001\n", "0x060400\n");
    let eth = plug("0000:3e:00.0", "0x1017\n", "0x020000\n");
    put(&eth.join("net/eth9/type"), "1\n");
    put(
        &root.proc_("net/route"),
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
         ibs1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\
         eth9\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n",
    );
    put(&root.sys("module/ib_core/parameters/netns_mode"), "N\n");

    let inventory = Inventory::read(&root, false).unwrap();
    assert_eq!(inventory.exclusive, Some(true));
    let classes: Vec<_> =
        inventory.functions.iter().map(|function| (function.pci.as_str(), function.class)).collect();
    assert_eq!(
        classes,
        [
            ("0000:3b:00.0", DeviceClass::Network),
            ("0000:3b:00.2", DeviceClass::Network),
            ("0000:3b:00.3", DeviceClass::Network),
            ("0000:3c:00.0", DeviceClass::Gpu),
            ("0000:3e:00.0", DeviceClass::Network),
        ],
        "bridges are not listed"
    );
    let at = |pci| inventory.function(pci).unwrap();
    let netdev = FunctionNetdev { name: "ibs1".to_owned(), link_type: Some("infiniband".to_owned()) };
    assert_eq!(
        (at("0000:3b:00.0").netdevs.as_slice(), at("0000:3b:00.0").vfs.len()),
        ([netdev].as_slice(), 2)
    );
    let vf = at("0000:3b:00.3");
    assert_eq!((vf.pf.as_deref(), vf.vf_index, vf.numa), (Some("0000:3b:00.0"), Some(1), None));
    assert_eq!(
        (vf.rdma.as_slice(), vf.first_pkey.as_deref()),
        (["mlx5_1".to_owned()].as_slice(), Some("0x7fff"))
    );
    assert_eq!(vf.path, ["pci0000:3a", "0000:3a:00.0"]);
    assert_eq!(at("0000:3c:00.0").acpi_index.as_deref(), Some("4"));
    assert!(at("0000:3e:00.0").default_route && !at("0000:3b:00.0").default_route);
}

#[tokio::test]
async fn added_and_removed_device_files_are_noticed_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    plug(dir.path());
    fs::create_dir_all(dir.path().join("dev/infiniband")).unwrap();
    let root = Root::at(dir.path());
    let hardware = Arc::new(LinuxHost::new(root.clone()));
    let roots = DiscoveryRoots { device_dir: root.dev("infiniband"), simulated: true, root };
    let (sender, mut receiver) = watch::channel(Arc::default());
    let watcher = tokio::spawn(watch_inventory(roots, hardware, sender));
    let limit = Duration::from_secs(1);
    let has = |inventory: &Arc<Inventory>| inventory.devices.iter().any(|device| device.uverbs().is_some());
    timeout(limit, receiver.wait_for(|inventory| !inventory.devices.is_empty())).await.unwrap().unwrap();

    let file = dir.path().join("dev/infiniband/uverbs0");
    fs::write(&file, "").unwrap();
    timeout(limit, receiver.wait_for(has)).await.expect("device file added").unwrap();
    fs::remove_file(&file).unwrap();
    timeout(limit, receiver.wait_for(|inventory| !has(inventory)))
        .await
        .expect("device file removed")
        .unwrap();
    watcher.abort();
}
