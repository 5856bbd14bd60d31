//! Which units pods hold, from the kubelet's own notes.
//!
//! `kubelet_internal_checkpoint` lies in the folder that a device plugin has anyway, so this works without a network, an
//! API server and the PodResources socket. It is the kubelet's own file (`pkg/kubelet/cm/devicemanager/checkpoint`): what
//! cannot be read in it is not known, and nothing but caution depends on it.

use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// The kubelet's file in the folder of device plugins.
const CHECKPOINT: &str = "kubelet_internal_checkpoint";

/// Who holds what: resource and id to the UID of the pod.
pub type Held = BTreeMap<(String, String), String>;

/// Read it in the folder of device plugins; nothing when it is not known.
pub fn held(folder: &Path) -> Option<Held> {
    let text = fs::read_to_string(folder.join(CHECKPOINT)).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let mut held = Held::new();
    for entry in value["Data"]["PodDeviceEntries"].as_array().into_iter().flatten() {
        let (Some(pod), Some(resource)) = (entry["PodUID"].as_str(), entry["ResourceName"].as_str()) else {
            continue;
        };
        // By NUMA node since Kubernetes 1.20.
        let lists = entry["DeviceIDs"].as_object().into_iter().flat_map(|nodes| nodes.values());
        for id in lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str) {
            held.insert((resource.to_owned(), id.to_owned()), pod.to_owned());
        }
    }
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelets_notes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(held(folder.path()), None);
        let text = r#"{"Data":{"PodDeviceEntries":[
            {"PodUID":"u1","ContainerName":"c","ResourceName":"a.b/vf","DeviceIDs":{"0":["0000:3b:00.2"],"-1":["x"]},"AllocResp":""},
            {"PodUID":"u2","ContainerName":"c","ResourceName":"jarvice.com/rdma","DeviceIDs":null}],
            "RegisteredDevices":{}},"Checksum":1}"#;
        fs::write(folder.path().join(CHECKPOINT), text).unwrap();
        let held = held(folder.path()).unwrap();
        let key = |id: &str| ("a.b/vf".to_owned(), id.to_owned());
        assert_eq!(
            held.into_iter().collect::<Vec<_>>(),
            [(key("0000:3b:00.2"), "u1".to_owned()), (key("x"), "u1".to_owned())]
        );
    }
}
