//! The device files of a container.

use crate::{
    advertise::wire::{ContainerAllocateResponse, DeviceSpec},
    discover::{Inventory, RdmaDevice},
};
use std::path::Path;

/// Where RDMA programs look for the devices (rdma-core, `RDMA_CDEV_DIR`).
const IN_CONTAINER: &str = "/dev/infiniband";

/// Everything a user of verbs needs: `uverbs*` of each device and `rdma_cm`, for reading and writing.
///
/// `umad*` and `issm*` are left out: whoever may send management datagrams can rewrite the fabric.
pub fn container(inventory: &Inventory) -> ContainerAllocateResponse {
    let uverbs = inventory.devices.iter().filter_map(RdmaDevice::uverbs);
    let files = uverbs.chain(inventory.rdma_cm.as_deref());
    ContainerAllocateResponse { devices: files.filter_map(spec).collect(), ..Default::default() }
}

fn spec(host: &Path) -> Option<DeviceSpec> {
    let name = host.file_name()?.to_str()?;
    Some(DeviceSpec {
        container_path: format!("{IN_CONTAINER}/{name}"),
        host_path: host.to_str()?.to_owned(),
        permissions: "rw".to_owned(),
    })
}
