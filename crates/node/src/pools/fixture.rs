//! The node of the contract's cases: an InfiniBand adapter A with four virtual functions, its second port B in
//! Ethernet mode, and somebody else's adapter C.

use super::{Configured, Defaults, Pool, Share, read, share};
use crate::discover::{DeviceFile, FileRole, Function, Inventory, Netdev, Port, RdmaDevice};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// The physical function A.
pub const A: &str = "0000:3b:00.0";

/// The address of virtual function `index` of A.
pub fn vf(index: usize) -> String {
    format!("0000:3b:00.{}", index + 2)
}

/// A physical function with an interface.
pub fn physical(pci: &str, id: (&str, &str), netdev: (&str, &str), numa: Option<u32>) -> Function {
    Function {
        pci: pci.to_owned(),
        vendor: id.0.to_owned(),
        device: id.1.to_owned(),
        driver: Some(if id.0 == "15b3" { "mlx5_core" } else { "i40e" }.to_owned()),
        numa,
        netdevs: vec![Netdev { name: netdev.0.to_owned(), link_type: Some(netdev.1.to_owned()) }],
        ..Function::default()
    }
}

/// An RDMA device with all its files.
pub fn rdma(index: usize, pci: &str, layer: &str) -> RdmaDevice {
    let file = |word: &str, role| DeviceFile { path: format!("/dev/infiniband/{word}{index}").into(), role };
    let port =
        Port { number: 1, link_layer: Some(layer.to_owned()), state: "Active".to_owned(), ..Port::default() };
    RdmaDevice {
        name: format!("mlx5_{index}"),
        pci: Some(pci.to_owned()),
        ports: vec![port],
        files: vec![
            file("uverbs", FileRole::Verbs),
            file("umad", FileRole::Management),
            file("issm", FileRole::SubnetManager),
        ],
        ..RdmaDevice::default()
    }
}

/// The node, with `vfs` virtual functions on A.
pub fn node(vfs: usize) -> Inventory {
    let mut a = physical(A, ("15b3", "1017"), ("ibs1", "infiniband"), Some(0));
    a.vfs = (0..vfs).map(vf).collect();
    let b = physical("0000:3b:00.1", ("15b3", "1017"), ("ens2f1np1", "ether"), Some(0));
    let c = physical("0000:d8:00.0", ("8086", "158b"), ("ens3", "ether"), Some(1));
    let mut functions = vec![a, b, c];
    let mut devices = vec![rdma(0, A, "InfiniBand"), rdma(1, "0000:3b:00.1", "Ethernet")];
    for index in 0..vfs {
        let function = Function {
            pci: vf(index),
            vendor: "15b3".to_owned(),
            device: "1018".to_owned(),
            driver: Some("mlx5_core".to_owned()),
            numa: Some(0),
            pf: Some(A.to_owned()),
            vf_index: Some(index),
            first_pkey: Some("0x7fff".to_owned()),
            ..Function::default()
        };
        functions.push(function);
        let mut device = rdma(index + 2, &vf(index), "InfiniBand");
        // Idle: nobody has set its GUID and link state.
        device.ports[0].state = "Down".to_owned();
        devices.push(device);
    }
    functions.sort_by(|one, other| one.pci.cmp(&other.pci));
    for function in &mut functions {
        let own = devices.iter().filter(|device| device.pci.as_ref() == Some(&function.pci));
        function.rdma = own.map(|device| device.name.clone()).collect();
    }
    let verbs = devices.iter().filter_map(RdmaDevice::uverbs).map(PathBuf::from).collect();
    let rdma_cm = Some("/dev/infiniband/rdma_cm".into());
    Inventory { devices, functions, verbs, rdma_cm, exclusive: Some(false), ..Inventory::default() }
}

/// The pools and problems of a file.
pub fn configured(text: &str) -> Configured {
    let read = read("f.json", text, &Defaults { prefix: "openshift.io".to_owned() });
    Configured { pools: read.pools.into_iter().map(Arc::new).collect(), problems: read.problems }
}

/// The shares of a file's pools, and every problem in words.
pub fn shares(text: &str, inventory: &Inventory) -> (Vec<Share>, Vec<String>) {
    let configured = configured(text);
    let (shares, problems) = share(&configured.pools, inventory, &BTreeSet::new(), &|_| true);
    let said = configured.problems.iter().chain(&problems).map(ToString::to_string).collect();
    (shares, said)
}

/// The ids of a share.
pub fn ids(share: &Share) -> Vec<&str> {
    share.units.iter().map(|unit| unit.id.as_str()).collect()
}

/// JARVICE's pool.
pub fn jarvice() -> Arc<Pool> {
    Arc::new(Pool::jarvice().unwrap())
}
