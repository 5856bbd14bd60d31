//! The kubelet's device checkpoint file, used where the PodResources socket is missing.

use super::PodDevices;
use serde::Deserialize;
use std::collections::BTreeMap;

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

/// Parses the kubelet's device checkpoint and returns the devices of the pod with this UID. The result is
/// empty if the checkpoint does not contain the pod.
pub(super) fn parse_pod_devices(text: &[u8], uid: &str) -> Result<PodDevices, serde_json::Error> {
    let checkpoint: PodDevicesCheckpoint = serde_json::from_slice(text)?;
    let mut devices = PodDevices::default();
    for entry in checkpoint.data.pod_device_entries.into_iter().flatten().filter(|entry| entry.pod == uid) {
        match entry.ids {
            Some(CheckpointDeviceIds::ByNumaNode(nodes)) => {
                devices.add(&entry.resource, nodes.into_values().flatten());
            }
            Some(CheckpointDeviceIds::Flat(ids)) => devices.add(&entry.resource, ids),
            None => {}
        }
    }
    Ok(devices)
}
