//! The kubelet's own file of devices, for where its socket is missing.

use super::Devices;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Checkpoint {
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    pod_device_entries: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    #[serde(rename = "DeviceIDs")]
    ids: Option<Ids>,
}

/// By NUMA node, or as a plain list, as before Kubernetes 1.20.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    ByNode(BTreeMap<String, Vec<String>>),
    Plain(Vec<String>),
}

/// The devices of the pod with this UID.
pub(super) fn devices(text: &[u8], uid: &str) -> Result<Devices, serde_json::Error> {
    let checkpoint: Checkpoint = serde_json::from_slice(text)?;
    let mut devices = Devices::default();
    for entry in checkpoint.data.pod_device_entries.into_iter().flatten().filter(|entry| entry.pod == uid) {
        match entry.ids {
            Some(Ids::ByNode(nodes)) => devices.add(&entry.resource, nodes.into_values().flatten()),
            Some(Ids::Plain(ids)) => devices.add(&entry.resource, ids),
            None => {}
        }
    }
    Ok(devices)
}
