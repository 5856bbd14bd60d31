//! Device-info files, in which CNI plugins look up a device id (k8s.cni.cncf.io device-info-spec 1.1.0).
//!
//! A file stays until its device is allocated to another pod, so a running pod keeps its file when the daemon
//! restarts.

use crate::{
    Error,
    install::{create_dir, write_atomically},
};
use ferroband_model::ResourceName;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Writes the device-info file of the function with the PCI address `id` into `dir`. `rdma` are the names of its
/// RDMA devices.
pub fn write(dir: &Path, resource: &ResourceName, id: &str, rdma: &[String]) -> Result<(), Error> {
    let mut pci = json!({ "pci-address": id });
    if !rdma.is_empty() {
        pci["rdma-device"] = rdma.join(",").into();
    }
    let content = json!({ "type": "pci", "version": "1.1.0", "pci": pci }).to_string();
    create_dir(dir)?;
    write_atomically(&path(dir, resource, id), &mut content.as_bytes(), 0o444)
}

/// Returns the path of the device-info file; the specification defines its name.
pub fn path(dir: &Path, resource: &ResourceName, id: &str) -> PathBuf {
    dir.join(format!("{}-{}-{id}-device.json", resource.prefix(), resource.name()))
}
