//! The contract's cases about what containers get, by their ids.

use super::ContainerAllocator;
use crate::{
    advertise::wire::ContainerAllocateResponse,
    discover::DiscoveryRoots,
    pools::{
        build_advertised_pools,
        fixture::{jarvice_pool, node, parse_config, vf_address},
    },
};
use ferroband_kernel::Root;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, sync::Arc};

struct AllocatorFixture {
    folder: tempfile::TempDir,
    allocator: ContainerAllocator,
}

fn machine() -> AllocatorFixture {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    AllocatorFixture {
        allocator: ContainerAllocator::new(DiscoveryRoots {
            device_dir: root.dev("infiniband"),
            simulated: false,
            root,
        }),
        folder,
    }
}

async fn ask(desk: &ContainerAllocator, text: &str, ids: &[&str]) -> ContainerAllocateResponse {
    let inventory = Arc::new(node(4));
    let (shares, _) =
        build_advertised_pools(&parse_config(text).pools, &inventory, &BTreeSet::new(), &|_| true);
    let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
    desk.allocate(&shares[0], &ids, &inventory).await.unwrap()
}

fn files(answer: &ContainerAllocateResponse) -> Vec<(&str, &str)> {
    answer.devices.iter().map(|spec| (spec.host_path.as_str(), spec.permissions.as_str())).collect()
}

const POOL: &str = r#"{"resourceList":[{"resourceName":"ib_vfs","selectors":{"pfNames":["ibs1"],"isRdma":true},
    "additionalInfo":{"*":{"k":"v","l":"w"},"0000:3b:00.2":{"k":"own"}}}]}"#;

#[tokio::test]
async fn c77_environment_and_files_of_two_functions() {
    let machine = machine();
    let answer = ask(&machine.allocator, POOL, &[&vf_address(0), &vf_address(2)]).await;
    assert_eq!(answer.envs["PCIDEVICE_OPENSHIFT_IO_IB_VFS"], "0000:3b:00.2,0000:3b:00.4");
    let info: Value = serde_json::from_str(&answer.envs["PCIDEVICE_OPENSHIFT_IO_IB_VFS_INFO"]).unwrap();
    assert_eq!(
        info["0000:3b:00.2"],
        json!({"generic": {"deviceID": "0000:3b:00.2"}, "extra": {"k": "own", "l": "w"}, "rdma": {
            "uverbs": "/dev/infiniband/uverbs2", "rdma_cm": "/dev/infiniband/rdma_cm", "rdma_dev": "mlx5_2"}})
    );
    assert_eq!(info["0000:3b:00.4"]["extra"]["k"], "v");
    // Decision 9: umad and issm only where the pool asks for them.
    let given = ["/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs4"];
    assert_eq!(files(&answer), given.map(|path| (path, "rw")));

    let asking = POOL.replace(r#""additionalInfo""#, r#""managementDevices":true,"additionalInfo""#);
    let answer = ask(&machine.allocator, &asking, &[&vf_address(0)]).await;
    let given = ["uverbs2", "umad2", "issm2", "rdma_cm"].map(|name| format!("/dev/infiniband/{name}"));
    assert_eq!(files(&answer), given.each_ref().map(|path| (path.as_str(), "rw")));
}

#[tokio::test]
async fn c78_a_hyphen_stays_and_shells_get_an_underscore() {
    let machine = machine();
    let answer = ask(&machine.allocator, &POOL.replace("ib_vfs", "ib-vfs"), &[&vf_address(0)]).await;
    let mut names: Vec<_> = answer.envs.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "PCIDEVICE_OPENSHIFT_IO_IB-VFS",
            "PCIDEVICE_OPENSHIFT_IO_IB-VFS_INFO",
            "PCIDEVICE_OPENSHIFT_IO_IB_VFS",
            "PCIDEVICE_OPENSHIFT_IO_IB_VFS_INFO"
        ]
    );
}

#[tokio::test]
async fn c79_the_device_info_file_is_there_and_can_be_written_again() {
    let machine = machine();
    for _ in 0..2 {
        ask(&machine.allocator, POOL, &[&vf_address(0)]).await;
    }
    let name = "var/run/k8s.cni.cncf.io/devinfo/dp/openshift.io-ib_vfs-0000:3b:00.2-device.json";
    let path = machine.folder.path().join(name);
    let content: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        content,
        json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:3b:00.2", "rdma-device": "mlx5_2"}})
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
}

#[tokio::test]
async fn c81_by_cdi_the_answer_is_a_name() {
    let AllocatorFixture { folder, allocator } = machine();
    let answer = ask(&allocator.with_cdi(), POOL, &[&vf_address(0), &vf_address(1)]).await;
    assert!(answer.devices.is_empty());
    let names = "openshift.io/net-pci=0000:3b:00.2,openshift.io/net-pci=0000:3b:00.3";
    assert_eq!(answer.annotations["cdi.k8s.io/openshift.io_net-pci"], names);
    let text =
        fs::read_to_string(folder.path().join("var/run/cdi/ferroband-openshift.io-ib_vfs.json")).unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&spec["kind"], spec["devices"].as_array().unwrap().len()),
        (&json!("openshift.io/net-pci"), 4)
    );
    assert_eq!(spec["devices"][0]["containerEdits"]["deviceNodes"][0]["path"], "/dev/infiniband/uverbs2");
}

#[tokio::test]
async fn c95_any_unit_is_all_chosen_adapters_and_rdma_cm_once() {
    let machine = machine();
    let text = r#"{"configList":[{"resourceName":"s","rdmaHcaMax":9,"selectors":{"deviceIDs":["1017"]}}]}"#;
    let answer = ask(&machine.allocator, text, &["7"]).await;
    let given = ["uverbs0", "uverbs1", "rdma_cm"].map(|name| format!("/dev/infiniband/{name}"));
    assert_eq!(files(&answer), given.each_ref().map(|path| (path.as_str(), "rwm")));
    assert!(answer.envs.is_empty() && answer.mounts.is_empty());
    let asking = text.replace(r#""rdmaHcaMax""#, r#""managementDevices":true,"rdmaHcaMax""#);
    assert_eq!(ask(&machine.allocator, &asking, &["7", "8"]).await.devices.len(), 7);
}

#[tokio::test]
async fn c102_knem_is_given_where_it_is_a_device() {
    let machine = machine();
    let knem = machine.folder.path().join("dev/knem");
    fs::create_dir_all(&knem).unwrap();
    assert_eq!(machine.allocator.roots.read_inventory().unwrap().knem, None, "a folder of that name");
    let mut inventory = node(0);
    inventory.knem = Some("/dev/knem".into());
    let (shares, _) = build_advertised_pools(&[jarvice_pool()], &inventory, &BTreeSet::new(), &|_| true);
    let answer =
        machine.allocator.allocate(&shares[0], &["rdma-0".to_owned()], &Arc::new(inventory)).await.unwrap();
    let given =
        ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm", "/dev/knem"];
    assert_eq!(files(&answer), given.map(|path| (path, "rw")));
}
