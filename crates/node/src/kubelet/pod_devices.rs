//! The devices of one pod.

use super::wire::PodResources;
use std::collections::{HashMap, VecDeque};

/// The devices of a pod that no network has taken yet, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDevices(HashMap<String, VecDeque<String>>);

impl PodDevices {
    /// The devices in the answer of a kubelet.
    pub(super) fn from_pod_resources(pod: &PodResources) -> Self {
        let mut devices = Self::default();
        for given in pod.containers.iter().flat_map(|container| &container.devices) {
            devices.add(&given.resource_name, given.device_ids.iter().cloned());
        }
        devices
    }

    /// Put further devices of a resource behind those that are known.
    pub fn add(&mut self, resource: &str, ids: impl IntoIterator<Item = String>) {
        self.0.entry(resource.to_owned()).or_default().extend(ids);
    }

    /// The next device of a resource. None is left when more networks use the resource than the pod has devices.
    pub fn take_next(&mut self, resource: &str) -> Option<String> {
        self.0.get_mut(resource)?.pop_front()
    }
}
