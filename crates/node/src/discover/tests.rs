use super::{Inventory, Sight, keep_current};
use ferroband_kernel::Root;
use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// One adapter as sysfs shows it; its device files are not made.
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
fn what_sysfs_says_is_read_and_files_count_when_they_exist() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    assert_eq!(Inventory::read(&root, false).unwrap(), Inventory::default());
    plug(folder.path());
    let inventory = Inventory::read(&root, true).unwrap();
    let [device] = inventory.devices.as_slice() else { panic!("{inventory:?}") };
    assert_eq!((device.name.as_str(), device.pci.as_deref()), ("mlx5_0", Some("0000:86:00.0")));
    assert_eq!((device.id.as_deref(), device.numa, device.vfs), (Some("15b3:1017"), Some(1), (0, 16)));
    assert_eq!(device.netdevs, ["ibs5f0"]);
    assert_eq!(
        (device.ports[0].state.as_str(), device.ports[0].rate.as_deref()),
        ("Active", Some("100 Gb/sec (4X EDR)"))
    );
    assert_eq!(device.uverbs(), None, "udev has not made it");
    put(&folder.path().join("dev/infiniband/uverbs0"), "");
    put(&folder.path().join("dev/infiniband/rdma_cm"), "");
    let inventory = Inventory::read(&root, true).unwrap();
    assert_eq!(inventory.devices[0].uverbs(), Some(folder.path().join("dev/infiniband/uverbs0").as_path()));
    assert_eq!(inventory.rdma_cm, Some(folder.path().join("dev/infiniband/rdma_cm")));
}

#[tokio::test]
async fn a_device_file_that_comes_or_goes_is_seen_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    plug(folder.path());
    fs::create_dir_all(folder.path().join("dev/infiniband")).unwrap();
    let root = Root::at(folder.path());
    let sight = Sight { files: root.dev("infiniband"), simulated: true, root };
    let (sender, mut seen) = watch::channel(Arc::default());
    let stop = CancellationToken::new();
    let watching = tokio::spawn(keep_current(sight, sender, stop.clone()));
    let soon = Duration::from_secs(1);
    let has = |inventory: &Arc<Inventory>| inventory.devices.iter().any(|device| device.uverbs().is_some());
    timeout(soon, seen.wait_for(|inventory| !inventory.devices.is_empty())).await.unwrap().unwrap();

    let file = folder.path().join("dev/infiniband/uverbs0");
    fs::write(&file, "").unwrap();
    timeout(soon, seen.wait_for(has)).await.expect("its coming").unwrap();
    fs::remove_file(&file).unwrap();
    timeout(soon, seen.wait_for(|inventory| !has(inventory))).await.expect("its going").unwrap();
    stop.cancel();
    watching.await.unwrap().unwrap();
}
