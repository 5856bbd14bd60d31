//! Devices by the Container Device Interface: the runtime is told a name, and finds the files in a specification of ours.

use crate::{
    Error,
    advertise::wire::{ContainerAllocateResponse, DeviceSpec},
    install::write_atomically,
};
use ferroband_model::ResourceName;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

/// The devices of a pool, by address.
pub type CdiDevices = BTreeMap<String, Vec<DeviceSpec>>;

/// Turn the device files of `answer` into names of `devices`, and write their specification into `folder`.
pub fn use_cdi_names(
    answer: &mut ContainerAllocateResponse,
    folder: &Path,
    resource: &ResourceName,
    devices: &CdiDevices,
    ids: &[String],
) -> Result<(), Error> {
    let kind = format!("{}/net-pci", resource.prefix());
    let node = |spec: &DeviceSpec| json!({ "path": spec.container_path, "hostPath": spec.host_path, "permissions": spec.permissions });
    let list: Vec<Value> = devices
        .iter()
        .map(|(id, specs)| {
            let nodes: Vec<_> = specs.iter().map(node).collect();
            json!({ "name": id, "containerEdits": { "deviceNodes": nodes } })
        })
        .collect();
    let content = json!({ "cdiVersion": "0.5.0", "kind": kind, "devices": list }).to_string();
    fs::create_dir_all(folder).map_err(|source| Error::File {
        action: "make",
        path: folder.to_owned(),
        source,
    })?;
    let file = folder.join(format!("ferroband-{}-{}.json", resource.prefix(), resource.name()));
    write_atomically(&file, &mut content.as_bytes(), 0o644)?;
    let names: Vec<_> = ids.iter().map(|id| format!("{kind}={id}")).collect();
    answer.annotations.insert(format!("cdi.k8s.io/{}_net-pci", resource.prefix()), names.join(","));
    answer.devices.clear();
    Ok(())
}
