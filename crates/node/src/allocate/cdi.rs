//! Container Device Interface (CDI): the Allocate response contains device names, and the container runtime looks
//! up their device files in a CDI specification.

use crate::{
    Error,
    install::{create_dir, write_atomically},
    kubelet::device_plugin_api::{ContainerAllocateResponse, DeviceSpec},
};
use ferroband_model::ResourceName;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

/// Device files of each function, by PCI address.
pub type CdiDevices = BTreeMap<String, Vec<DeviceSpec>>;

/// Replaces the device files in `response` with the CDI names of the devices `ids`, and writes the CDI
/// specification of all `devices` of the resource into `dir`.
pub fn use_cdi_names(
    response: &mut ContainerAllocateResponse,
    dir: &Path,
    resource: &ResourceName,
    devices: &CdiDevices,
    ids: &[String],
) -> Result<(), Error> {
    let kind = format!("{}/net-pci", resource.prefix());
    let node = |spec: &DeviceSpec| {
        let DeviceSpec { container_path, host_path, permissions } = spec;
        json!({ "path": container_path, "hostPath": host_path, "permissions": permissions })
    };
    let list: Vec<Value> = devices
        .iter()
        .map(|(id, specs)| {
            let nodes: Vec<_> = specs.iter().map(node).collect();
            json!({ "name": id, "containerEdits": { "deviceNodes": nodes } })
        })
        .collect();
    let content = json!({ "cdiVersion": "0.5.0", "kind": kind, "devices": list }).to_string();
    create_dir(dir)?;
    let file = dir.join(format!("ferroband-{}-{}.json", resource.prefix(), resource.name()));
    write_atomically(&file, &mut content.as_bytes(), 0o644)?;
    let names: Vec<_> = ids.iter().map(|id| format!("{kind}={id}")).collect();
    response.annotations.insert(format!("cdi.k8s.io/{}_net-pci", resource.prefix()), names.join(","));
    response.devices.clear();
    Ok(())
}
