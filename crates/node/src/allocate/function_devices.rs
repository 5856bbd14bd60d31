//! Device files and information of one allocated function.

use super::device_specs::{self, READ_WRITE};
use crate::{
    discover::{DeviceFileRole, Inventory, InventoryFunction},
    kubelet::device_plugin_api::DeviceSpec,
    pools::{DevicePool, FunctionPool},
};
use ferroband_kernel::Root;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Device files and details that a container gets with one function.
#[derive(Debug, Default)]
pub struct FunctionDevices {
    pub devices: Vec<DeviceSpec>,
    /// Details of the function in the variable `PCIDEVICE_<RESOURCE>_INFO`.
    pub info: Map<String, Value>,
    /// Names of the RDMA devices of the function, for example `mlx5_2`.
    pub rdma: Vec<String>,
}

impl FunctionDevices {
    /// Collects what a container of `pool` gets with `function`. Returns `None` while a required RDMA device is
    /// missing.
    pub fn collect(
        function: &InventoryFunction,
        pool: &DevicePool,
        functions: &FunctionPool,
        inventory: &Inventory,
        root: &Root,
    ) -> Option<Self> {
        let mut collected = Self::default();
        collected.info.insert("generic".to_owned(), json!({ "deviceID": function.pci }));
        let matching = functions
            .selectors
            .iter()
            .filter(|selector| selector.rejecting_field(function, inventory).is_none());
        let (mut rdma, mut vhost) = (false, false);
        for selector in matching {
            rdma |= selector.rdma;
            vhost |= selector.vhost_net;
        }
        if rdma && !collected.add_rdma(function, pool, inventory) {
            return None;
        }
        if function.driver.as_deref() == Some("vfio-pci") {
            collected.add_vfio(function, root);
        }
        if vhost {
            collected.add_vhost(root);
        }
        let all = functions
            .additional_info
            .get("*")
            .into_iter()
            .chain(functions.additional_info.get(&function.pci));
        let extra: Map<String, Value> =
            all.flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        if !extra.is_empty() {
            collected.info.insert("extra".to_owned(), Value::Object(extra));
        }
        Some(collected)
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
                device_specs::container_path(path).map(|path| ("rdma_cm".to_owned(), Value::from(path))),
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
        // Without an IOMMU, the kernel names the VFIO group file `noiommu-<group>`. Programs in the container
        // expect the name `<group>`.
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
