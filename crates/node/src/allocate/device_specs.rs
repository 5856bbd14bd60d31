//! Device files of a container.

use crate::advertise::wire::DeviceSpec;
use std::path::Path;

/// Where RDMA programs look for the devices (rdma-core, `RDMA_CDEV_DIR`).
const CONTAINER_DIR: &str = "/dev/infiniband";

/// Reading and writing.
pub const READ_WRITE: &str = "rw";
/// The same, and making the file; the shared plugin gives this.
pub const READ_WRITE_MKNOD: &str = "rwm";

/// An RDMA device's file, where programs look for it.
pub fn rdma_spec(host: &Path, permissions: &str) -> Option<DeviceSpec> {
    device_spec(&container_path(host)?, host, permissions)
}

/// The path in the container of an RDMA device's file.
pub fn container_path(host: &Path) -> Option<String> {
    Some(format!("{CONTAINER_DIR}/{}", host.file_name()?.to_str()?))
}

/// The file `host`, at `path` in the container.
pub fn device_spec(path: &str, host: &Path, permissions: &str) -> Option<DeviceSpec> {
    Some(DeviceSpec {
        container_path: path.to_owned(),
        host_path: host.to_str()?.to_owned(),
        permissions: permissions.to_owned(),
    })
}

/// Add what is not there yet: one file is given once.
pub fn add_missing(list: &mut Vec<DeviceSpec>, more: impl IntoIterator<Item = DeviceSpec>) {
    for spec in more {
        if !list.iter().any(|known| known.host_path == spec.host_path) {
            list.push(spec);
        }
    }
}
