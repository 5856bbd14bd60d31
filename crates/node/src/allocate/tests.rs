//! Tests of Allocate responses.

use super::ContainerAllocator;
use crate::{
    discover::DiscoveryRoots,
    kubelet::device_plugin_api::ContainerAllocateResponse,
    pools::{
        build_advertised_pools,
        fixture::{jarvice_pool, node, parse_config, vf_address},
    },
};
use ferroband_kernel::Root;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, sync::Arc};

struct AllocatorFixture {
    dir: tempfile::TempDir,
    allocator: ContainerAllocator,
}

fn fixture() -> AllocatorFixture {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    AllocatorFixture {
        allocator: ContainerAllocator::new(DiscoveryRoots {
            device_dir: root.dev("infiniband"),
            simulated: false,
            root,
        }),
        dir,
    }
}

async fn allocate(allocator: &ContainerAllocator, text: &str, ids: &[&str]) -> ContainerAllocateResponse {
    let inventory = Arc::new(node(4));
    let (pools, _) =
        build_advertised_pools(&parse_config(text).pools, &inventory, &BTreeSet::new(), &|_| true);
    let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
    allocator.allocate(&pools[0], &ids, &inventory).await.unwrap()
}

fn files(response: &ContainerAllocateResponse) -> Vec<(&str, &str)> {
    response.devices.iter().map(|spec| (spec.host_path.as_str(), spec.permissions.as_str())).collect()
}

const POOL: &str = r#"{"resourceList":[{"resourceName":"ib_vfs","selectors":{"pfNames":["ibs1"],"isRdma":true},
    "additionalInfo":{"*":{"k":"v","l":"w"},"0000:3b:00.2":{"k":"own"}}}]}"#;

// Case: operator C77
#[tokio::test]
async fn allocated_functions_get_environment_variables_and_device_files() {
    let fixture = fixture();
    let response = allocate(&fixture.allocator, POOL, &[&vf_address(0), &vf_address(2)]).await;
    assert_eq!(response.envs["PCIDEVICE_OPENSHIFT_IO_IB_VFS"], "0000:3b:00.2,0000:3b:00.4");
    let info: Value = serde_json::from_str(&response.envs["PCIDEVICE_OPENSHIFT_IO_IB_VFS_INFO"]).unwrap();
    assert_eq!(
        info["0000:3b:00.2"],
        json!({"generic": {"deviceID": "0000:3b:00.2"}, "extra": {"k": "own", "l": "w"}, "rdma": {
            "uverbs": "/dev/infiniband/uverbs2", "rdma_cm": "/dev/infiniband/rdma_cm", "rdma_dev": "mlx5_2"}})
    );
    assert_eq!(info["0000:3b:00.4"]["extra"]["k"], "v");
    // The pool does not set `managementDevices`, so the container gets no umad and issm files.
    let expected = ["/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs4"];
    assert_eq!(files(&response), expected.map(|path| (path, "rw")));

    let with_management = POOL.replace(r#""additionalInfo""#, r#""managementDevices":true,"additionalInfo""#);
    let response = allocate(&fixture.allocator, &with_management, &[&vf_address(0)]).await;
    let expected = ["uverbs2", "umad2", "issm2", "rdma_cm"].map(|name| format!("/dev/infiniband/{name}"));
    assert_eq!(files(&response), expected.each_ref().map(|path| (path.as_str(), "rw")));
}

// Case: operator C78
#[tokio::test]
async fn variables_keep_a_hyphen_and_have_an_underscore_variant() {
    let fixture = fixture();
    let response = allocate(&fixture.allocator, &POOL.replace("ib_vfs", "ib-vfs"), &[&vf_address(0)]).await;
    let mut names: Vec<_> = response.envs.keys().map(String::as_str).collect();
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

// Case: operator C79
#[tokio::test]
async fn device_info_file_is_written_and_can_be_rewritten() {
    let fixture = fixture();
    for _ in 0..2 {
        allocate(&fixture.allocator, POOL, &[&vf_address(0)]).await;
    }
    let name = "var/run/k8s.cni.cncf.io/devinfo/dp/openshift.io-ib_vfs-0000:3b:00.2-device.json";
    let path = fixture.dir.path().join(name);
    let content: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        content,
        json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:3b:00.2", "rdma-device": "mlx5_2"}})
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
}

// Case: operator C81
#[tokio::test]
async fn cdi_response_has_device_names_instead_of_files() {
    let AllocatorFixture { dir, allocator } = fixture();
    let response = allocate(&allocator.with_cdi(), POOL, &[&vf_address(0), &vf_address(1)]).await;
    assert!(response.devices.is_empty());
    let names = "openshift.io/net-pci=0000:3b:00.2,openshift.io/net-pci=0000:3b:00.3";
    assert_eq!(response.annotations["cdi.k8s.io/openshift.io_net-pci"], names);
    let text = fs::read_to_string(dir.path().join("var/run/cdi/ferroband-openshift.io-ib_vfs.json")).unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&spec["kind"], spec["devices"].as_array().unwrap().len()),
        (&json!("openshift.io/net-pci"), 4)
    );
    assert_eq!(spec["devices"][0]["containerEdits"]["deviceNodes"][0]["path"], "/dev/infiniband/uverbs2");
}

// Case: operator C95
#[tokio::test]
async fn any_shared_device_gets_all_selected_adapters_and_rdma_cm_once() {
    let fixture = fixture();
    let text = r#"{"configList":[{"resourceName":"s","rdmaHcaMax":9,"selectors":{"deviceIDs":["1017"]}}]}"#;
    let response = allocate(&fixture.allocator, text, &["7"]).await;
    let expected = ["uverbs0", "uverbs1", "rdma_cm"].map(|name| format!("/dev/infiniband/{name}"));
    assert_eq!(files(&response), expected.each_ref().map(|path| (path.as_str(), "rwm")));
    assert!(response.envs.is_empty() && response.mounts.is_empty());
    let with_management = text.replace(r#""rdmaHcaMax""#, r#""managementDevices":true,"rdmaHcaMax""#);
    assert_eq!(allocate(&fixture.allocator, &with_management, &["7", "8"]).await.devices.len(), 7);
}

// Case: operator C102
#[tokio::test]
async fn knem_is_passed_only_if_it_is_a_character_device() {
    let fixture = fixture();
    let knem = fixture.dir.path().join("dev/knem");
    fs::create_dir_all(&knem).unwrap();
    assert_eq!(fixture.allocator.roots.read_inventory().unwrap().knem, None, "a directory of that name");
    let mut inventory = node(0);
    inventory.knem = Some("/dev/knem".into());
    let (pools, _) = build_advertised_pools(&[jarvice_pool()], &inventory, &BTreeSet::new(), &|_| true);
    let response =
        fixture.allocator.allocate(&pools[0], &["rdma-0".to_owned()], &Arc::new(inventory)).await.unwrap();
    let expected =
        ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm", "/dev/knem"];
    assert_eq!(files(&response), expected.map(|path| (path, "rw")));
}
