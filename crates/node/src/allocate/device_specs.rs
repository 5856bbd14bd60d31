//! Device specifications of an Allocate response.

use crate::kubelet::device_plugin_api::DeviceSpec;
use std::path::Path;

/// Directory in which RDMA programs expect device files (`RDMA_CDEV_DIR` in rdma-core).
const CONTAINER_DIR: &str = "/dev/infiniband";

pub const READ_WRITE: &str = "rw";
/// Permission to read, write and create (mknod) a device file, as the upstream shared device plugin grants.
pub const READ_WRITE_MKNOD: &str = "rwm";

/// Returns the specification that passes the RDMA device file `host` to the container at its usual path.
pub fn rdma_spec(host: &Path, permissions: &str) -> Option<DeviceSpec> {
    device_spec(&container_path(host)?, host, permissions)
}

/// Returns the path of the RDMA device file `host` in the container; `None` if the file name is not UTF-8.
pub fn container_path(host: &Path) -> Option<String> {
    Some(format!("{CONTAINER_DIR}/{}", host.file_name()?.to_str()?))
}

/// Returns the specification that passes the device file `host` to the container at `path`. Returns `None` if the
/// host path is not UTF-8.
pub fn device_spec(path: &str, host: &Path, permissions: &str) -> Option<DeviceSpec> {
    Some(DeviceSpec {
        container_path: path.to_owned(),
        host_path: host.to_str()?.to_owned(),
        permissions: permissions.to_owned(),
    })
}

/// Adds those device files of `more` to `list` whose host path is not in `list` yet.
pub fn add_missing(list: &mut Vec<DeviceSpec>, more: impl IntoIterator<Item = DeviceSpec>) {
    for spec in more {
        if !list.iter().any(|existing| existing.host_path == spec.host_path) {
            list.push(spec);
        }
    }
}
