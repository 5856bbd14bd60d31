//! The devices that the kubelet allocated to one pod.

use super::wire::PodResources;
use ferroband_model::PciAddress;
use std::collections::{HashMap, VecDeque};

/// Devices of a pod that are not assigned to one of its networks yet, by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDevices(HashMap<String, VecDeque<String>>);

impl PodDevices {
    pub(super) fn from_pod_resources(pod: &PodResources) -> Self {
        let mut devices = Self::default();
        for allocated in pod.containers.iter().flat_map(|container| &container.devices) {
            devices.add(&allocated.resource_name, allocated.device_ids.iter().cloned());
        }
        devices
    }

    /// Appends devices to those that the pod already has of this resource.
    pub fn add(&mut self, resource: &str, ids: impl IntoIterator<Item = String>) {
        self.0.entry(resource.to_owned()).or_default().extend(ids);
    }

    /// Whether the pod has the device. An address of a PCI function is compared as an address, in any letter case.
    pub fn contains(&self, device: &str) -> bool {
        let address: Option<PciAddress> = device.parse().ok();
        self.ids().any(|id| id == device || (address.is_some() && id.parse().ok() == address))
    }

    /// The pod's devices of all resources.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.values().flatten().map(String::as_str)
    }

    /// Removes and returns the next device of a resource. `None` if all its devices are taken.
    pub fn take_next(&mut self, resource: &str) -> Option<String> {
        self.0.get_mut(resource)?.pop_front()
    }
}
