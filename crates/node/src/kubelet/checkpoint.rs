//! Devices held by pods, from the kubelet's device manager checkpoint.
//!
//! `kubelet_internal_checkpoint` is in the directory that every device plugin mounts, so reading it needs no
//! network, API server or PodResources socket. The format is internal to the kubelet
//! (`pkg/kubelet/cm/devicemanager/checkpoint`).

use super::PodDevices;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Maps (resource name, device id) to the UID of the pod that holds the device.
pub type HeldDevices = BTreeMap<(String, String), String>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PodDevicesCheckpoint {
    data: PodDevicesCheckpointData,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PodDevicesCheckpointData {
    pod_device_entries: Option<Vec<PodDevicesCheckpointEntry>>,
}

#[derive(Deserialize)]
struct PodDevicesCheckpointEntry {
    #[serde(rename = "PodUID")]
    pod: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    #[serde(rename = "DeviceIDs")]
    ids: Option<CheckpointDeviceIds>,
}

/// Device IDs of one resource, grouped by NUMA node. Before Kubernetes 1.20, the kubelet wrote a flat list.
#[derive(Deserialize)]
#[serde(untagged)]
enum CheckpointDeviceIds {
    ByNumaNode(BTreeMap<String, Vec<String>>),
    Flat(Vec<String>),
}

/// Returns the path of the checkpoint file in the device plugin directory `dir`.
pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("kubelet_internal_checkpoint")
}

/// Parses the checkpoint. Returns the pod's UID, the resource name and the devices of each entry.
fn parse(text: &[u8]) -> serde_json::Result<impl Iterator<Item = (String, String, Vec<String>)> + use<>> {
    let checkpoint: PodDevicesCheckpoint = serde_json::from_slice(text)?;
    Ok(checkpoint.data.pod_device_entries.into_iter().flatten().map(|entry| {
        let ids = match entry.ids {
            Some(CheckpointDeviceIds::ByNumaNode(nodes)) => nodes.into_values().flatten().collect(),
            Some(CheckpointDeviceIds::Flat(ids)) => ids,
            None => Vec::new(),
        };
        (entry.pod, entry.resource, ids)
    }))
}

/// Parses the checkpoint and returns the devices of the pod with this UID. The result is empty if the checkpoint does
/// not contain the pod.
pub(super) fn parse_pod_devices(text: &[u8], uid: &str) -> serde_json::Result<PodDevices> {
    let mut devices = PodDevices::default();
    parse(text)?.filter(|(pod, ..)| pod == uid).for_each(|(_, resource, ids)| devices.add(&resource, ids));
    Ok(devices)
}

/// Reads the checkpoint file in the device plugin directory `dir`. Returns `None` if it is missing or cannot be parsed,
/// because only precautions depend on it.
pub fn read_checkpoint(dir: &Path) -> Option<HeldDevices> {
    let entries = parse(&fs::read(path(dir)).ok()?).ok()?;
    let held = entries.flat_map(|(pod, resource, ids)| {
        ids.into_iter().map(move |id| ((resource.clone(), id), pod.clone()))
    });
    Some(held.collect())
}
