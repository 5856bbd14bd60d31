//! What comes with one function.

use super::device_specs::{self, READ_WRITE};
use crate::{
    advertise::wire::DeviceSpec,
    discover::{DeviceFileRole, Inventory, InventoryFunction},
    pools::{DevicePool, FunctionPool},
};
use ferroband_kernel::Root;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A function and everything that comes with it.
#[derive(Debug, Default)]
pub struct FunctionDevices {
    /// The device files.
    pub devices: Vec<DeviceSpec>,
    /// The same for programs: the value in the variable `…_INFO`.
    pub info: Map<String, Value>,
    /// The RDMA devices.
    pub rdma: Vec<String>,
}

impl FunctionDevices {
    /// What a container of `pool` gets with `function`; nothing while an RDMA device that it should get is away.
    pub fn collect(
        function: &InventoryFunction,
        pool: &DevicePool,
        chosen: &FunctionPool,
        inventory: &Inventory,
        root: &Root,
    ) -> Option<Self> {
        let mut given = Self::default();
        given.info.insert("generic".to_owned(), json!({ "deviceID": function.pci }));
        let by = chosen.selectors.iter().filter(|one| one.rejecting_field(function, inventory).is_none());
        let (mut rdma, mut vhost) = (false, false);
        for selector in by {
            rdma |= selector.rdma;
            vhost |= selector.vhost_net;
        }
        if rdma && !given.add_rdma(function, pool, inventory) {
            return None;
        }
        if function.driver.as_deref() == Some("vfio-pci") {
            given.add_vfio(function, root);
        }
        if vhost {
            given.add_vhost(root);
        }
        let all =
            chosen.additional_info.get("*").into_iter().chain(chosen.additional_info.get(&function.pci));
        let extra: Map<String, Value> =
            all.flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        if !extra.is_empty() {
            given.info.insert("extra".to_owned(), Value::Object(extra));
        }
        Some(given)
    }

    fn add_rdma(&mut self, function: &InventoryFunction, pool: &DevicePool, inventory: &Inventory) -> bool {
        let mut info = Map::new();
        for device in inventory.rdma_devices_of(&function.pci) {
            for file in crate::pools::container_files(device, pool) {
                let key = match file.role {
                    DeviceFileRole::Verbs => "uverbs",
                    DeviceFileRole::Management => "umad",
                    DeviceFileRole::SubnetManager => "issm",
                };
                info.extend(
                    device_specs::container_path(&file.path).map(|path| (key.to_owned(), Value::from(path))),
                );
                device_specs::add_missing(&mut self.devices, device_specs::rdma_spec(&file.path, READ_WRITE));
            }
            self.rdma.push(device.name.clone());
        }
        if !info.contains_key("uverbs") {
            return false;
        }
        if let Some(path) = &inventory.rdma_cm {
            info.extend(
                device_specs::container_path(path).map(|inside| ("rdma_cm".to_owned(), Value::from(inside))),
            );
            device_specs::add_missing(&mut self.devices, device_specs::rdma_spec(path, READ_WRITE));
        }
        info.insert("rdma_dev".to_owned(), Value::from(self.rdma.join(",")));
        self.info.insert("rdma".to_owned(), Value::Object(info));
        true
    }

    fn add_vfio(&mut self, function: &InventoryFunction, root: &Root) {
        let Some(group) = &function.iommu_group else { return };
        let device = format!("/dev/vfio/{group}");
        self.add_device("/dev/vfio/vfio", &root.dev("vfio/vfio"));
        // Without an IOMMU the kernel calls the file otherwise; programs in the container look for the usual name.
        let unsafe_file = root.dev(format!("vfio/noiommu-{group}"));
        let host = if unsafe_file.exists() { unsafe_file } else { root.dev(format!("vfio/{group}")) };
        self.add_device(&device, &host);
        self.info.insert("vfio".to_owned(), json!({ "mount": "/dev/vfio/vfio", "dev-mount": device }));
    }

    fn add_vhost(&mut self, root: &Root) {
        let both: [(&str, PathBuf); 2] =
            [("/dev/vhost-net", root.dev("vhost-net")), ("/dev/net/tun", root.dev("net/tun"))];
        if both.iter().all(|(_, host)| host.exists()) {
            for (path, host) in &both {
                self.add_device(path, host);
            }
            let info = json!({ "net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun" });
            self.info.insert("vhost".to_owned(), info);
        }
    }

    fn add_device(&mut self, path: &str, host: &Path) {
        device_specs::add_missing(&mut self.devices, device_specs::device_spec(path, host, READ_WRITE));
    }
}
