//! A test node: an InfiniBand adapter A with four virtual functions, its second port B in Ethernet mode, and adapter
//! C of another vendor.

use super::{AdvertisedPool, DevicePool, PoolConfig, PoolDefaults, build_advertised_pools, parse_pool_file};
use crate::discover::{
    DeviceFile, DeviceFileRole, FunctionNetdev, Inventory, InventoryFunction, InventoryPort,
    InventoryRdmaDevice,
};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

pub const A: &str = "0000:3b:00.0";

/// Returns the PCI address of virtual function `index` of A.
pub fn vf_address(index: usize) -> String {
    format!("0000:3b:00.{}", index + 2)
}

pub fn physical_function(
    pci: &str,
    id: (&str, &str),
    netdev: (&str, &str),
    numa: Option<u32>,
) -> InventoryFunction {
    InventoryFunction {
        pci: pci.to_owned(),
        vendor: id.0.to_owned(),
        device: id.1.to_owned(),
        driver: Some(if id.0 == "15b3" { "mlx5_core" } else { "i40e" }.to_owned()),
        numa,
        netdevs: vec![FunctionNetdev { name: netdev.0.to_owned(), link_type: Some(netdev.1.to_owned()) }],
        ..InventoryFunction::default()
    }
}

pub fn rdma_device(index: usize, pci: &str, link_layer: &str) -> InventoryRdmaDevice {
    let file =
        |prefix: &str, role| DeviceFile { path: format!("/dev/infiniband/{prefix}{index}").into(), role };
    let port = InventoryPort {
        number: 1,
        link_layer: Some(link_layer.to_owned()),
        state: "Active".to_owned(),
        ..InventoryPort::default()
    };
    InventoryRdmaDevice {
        name: format!("mlx5_{index}"),
        pci: Some(pci.to_owned()),
        ports: vec![port],
        files: vec![
            file("uverbs", DeviceFileRole::Verbs),
            file("umad", DeviceFileRole::Management),
            file("issm", DeviceFileRole::SubnetManager),
        ],
        ..InventoryRdmaDevice::default()
    }
}

pub fn node(vfs: usize) -> Inventory {
    let mut a = physical_function(A, ("15b3", "1017"), ("ibs1", "infiniband"), Some(0));
    a.vfs = (0..vfs).map(vf_address).collect();
    let b = physical_function("0000:3b:00.1", ("15b3", "1017"), ("ens2f1np1", "ether"), Some(0));
    let c = physical_function("0000:d8:00.0", ("8086", "158b"), ("ens3", "ether"), Some(1));
    let mut functions = vec![a, b, c];
    let mut devices = vec![rdma_device(0, A, "InfiniBand"), rdma_device(1, "0000:3b:00.1", "Ethernet")];
    for index in 0..vfs {
        let function = InventoryFunction {
            pci: vf_address(index),
            vendor: "15b3".to_owned(),
            device: "1018".to_owned(),
            driver: Some("mlx5_core".to_owned()),
            numa: Some(0),
            pf: Some(A.to_owned()),
            vf_index: Some(index),
            first_pkey: Some("0x7fff".to_owned()),
            ..InventoryFunction::default()
        };
        functions.push(function);
        let mut device = rdma_device(index + 2, &vf_address(index), "InfiniBand");
        // The port of an idle virtual function is down, because its GUID and link state are not set.
        device.ports[0].state = "Down".to_owned();
        devices.push(device);
    }
    functions.sort_by(|one, other| one.pci.cmp(&other.pci));
    for function in &mut functions {
        let rdma_devices = devices.iter().filter(|device| device.pci.as_ref() == Some(&function.pci));
        function.rdma = rdma_devices.map(|device| device.name.clone()).collect();
    }
    let verbs = devices.iter().filter_map(InventoryRdmaDevice::uverbs).map(PathBuf::from).collect();
    let rdma_cm = Some("/dev/infiniband/rdma_cm".into());
    Inventory { devices, functions, verbs, rdma_cm, exclusive: Some(false), ..Inventory::default() }
}

/// Parses `text` as the content of the file `f.json`, with the default prefix `openshift.io`.
pub fn parse_config(text: &str) -> PoolConfig {
    let parsed = parse_pool_file("f.json", text, &PoolDefaults { prefix: "openshift.io".to_owned() });
    PoolConfig { pools: parsed.pools.into_iter().map(Arc::new).collect(), problems: parsed.problems }
}

/// Returns the advertised pools for the configuration `text`, and all problems as messages.
pub fn advertise(text: &str, inventory: &Inventory) -> (Vec<AdvertisedPool>, Vec<String>) {
    let configured = parse_config(text);
    let (pools, problems) = build_advertised_pools(&configured.pools, inventory, &BTreeSet::new(), &|_| true);
    let messages = configured.problems.iter().chain(&problems).map(ToString::to_string).collect();
    (pools, messages)
}

pub fn device_ids(pool: &AdvertisedPool) -> Vec<&str> {
    pool.devices.iter().map(|device| device.id.as_str()).collect()
}

pub fn jarvice_pool() -> Arc<DevicePool> {
    Arc::new(DevicePool::whole_node("jarvice.com/rdma".parse().unwrap(), 1))
}
