//! Device-info files: where CNI plugins look up what is behind a device id (k8s.cni.cncf.io device-info-spec 1.1.0).
//!
//! A file stays until its device is given to somebody else: a pod that runs keeps its file through our restarts.

use crate::{Error, install::write_atomically};
use ferroband_model::ResourceName;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Write the file of the function `id` into `folder`.
pub fn write(folder: &Path, resource: &ResourceName, id: &str, rdma: &[String]) -> Result<(), Error> {
    let mut pci = json!({ "pci-address": id });
    if !rdma.is_empty() {
        pci["rdma-device"] = rdma.join(",").into();
    }
    let content = json!({ "type": "pci", "version": "1.1.0", "pci": pci }).to_string();
    fs::create_dir_all(folder).map_err(|source| Error::File {
        action: "make",
        path: folder.to_owned(),
        source,
    })?;
    write_atomically(&path(folder, resource, id), &mut content.as_bytes(), 0o444)
}

/// Its name is in the specification.
pub fn path(folder: &Path, resource: &ResourceName, id: &str) -> PathBuf {
    folder.join(format!("{}-{}-{id}-device.json", resource.prefix(), resource.name()))
}
