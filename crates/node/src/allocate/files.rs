//! Device files of a container.

use crate::advertise::wire::DeviceSpec;
use std::path::Path;

/// Where RDMA programs look for the devices (rdma-core, `RDMA_CDEV_DIR`).
const IN_CONTAINER: &str = "/dev/infiniband";

/// Reading and writing.
pub const USE: &str = "rw";
/// The same, and making the file; the shared plugin gives this.
pub const MAKE: &str = "rwm";

/// An RDMA device's file, where programs look for it.
pub fn rdma(host: &Path, permissions: &str) -> Option<DeviceSpec> {
    at(&inside(host)?, host, permissions)
}

/// The path in the container of an RDMA device's file.
pub fn inside(host: &Path) -> Option<String> {
    Some(format!("{IN_CONTAINER}/{}", host.file_name()?.to_str()?))
}

/// The file `host`, at `path` in the container.
pub fn at(path: &str, host: &Path, permissions: &str) -> Option<DeviceSpec> {
    Some(DeviceSpec {
        container_path: path.to_owned(),
        host_path: host.to_str()?.to_owned(),
        permissions: permissions.to_owned(),
    })
}

/// Add what is not there yet: one file is given once.
pub fn add(list: &mut Vec<DeviceSpec>, more: impl IntoIterator<Item = DeviceSpec>) {
    for spec in more {
        if !list.iter().any(|known| known.host_path == spec.host_path) {
            list.push(spec);
        }
    }
}
