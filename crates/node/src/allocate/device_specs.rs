//! Device files passed to a container.

use crate::advertise::wire::DeviceSpec;
use std::path::Path;

/// Where RDMA programs expect device files (rdma-core, `RDMA_CDEV_DIR`).
const CONTAINER_DIR: &str = "/dev/infiniband";

pub const READ_WRITE: &str = "rw";
/// The permissions that the shared device plugin grants.
pub const READ_WRITE_MKNOD: &str = "rwm";

/// The specification of an RDMA device file at its usual path.
pub fn rdma_spec(host: &Path, permissions: &str) -> Option<DeviceSpec> {
    device_spec(&container_path(host)?, host, permissions)
}

/// Path of an RDMA device file in the container.
pub fn container_path(host: &Path) -> Option<String> {
    Some(format!("{CONTAINER_DIR}/{}", host.file_name()?.to_str()?))
}

/// The file `host` at `path` in the container.
pub fn device_spec(path: &str, host: &Path, permissions: &str) -> Option<DeviceSpec> {
    Some(DeviceSpec {
        container_path: path.to_owned(),
        host_path: host.to_str()?.to_owned(),
        permissions: permissions.to_owned(),
    })
}

/// Adds files that are not in the list yet.
pub fn add_missing(list: &mut Vec<DeviceSpec>, more: impl IntoIterator<Item = DeviceSpec>) {
    for spec in more {
        if !list.iter().any(|existing| existing.host_path == spec.host_path) {
            list.push(spec);
        }
    }
}
