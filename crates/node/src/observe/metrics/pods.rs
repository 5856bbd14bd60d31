//! Maps devices to the pods that they are allocated to.

use crate::{
    caches::{PodOwner, WatchCache},
    kubelet::HeldDevices,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodWithController {
    pub namespace: String,
    pub name: String,
    /// API version, kind and name of the pod's controller; `None` if the pod has none.
    pub controller: Option<(String, String, String)>,
}

impl PodWithController {
    /// Returns the pod's labels with Spiderpool's names. If the pod has no controller, the controller's
    /// labels are empty.
    pub(super) fn labels(&self) -> Vec<(&'static str, String)> {
        let (version, kind, name) = self.controller.clone().unwrap_or_default();
        // The controller of a pod is in the pod's namespace.
        let namespace = if name.is_empty() { String::new() } else { self.namespace.clone() };
        vec![
            ("pod_namespace", self.namespace.clone()),
            ("pod_name", self.name.clone()),
            ("owner_api_version", version),
            ("owner_kind", kind),
            ("owner_namespace", namespace),
            ("owner_name", name),
        ]
    }
}

/// Pods by the PCI address of a device that is allocated to them.
#[derive(Clone, Debug, Default)]
pub struct PodsByPciAddress(BTreeMap<String, PodWithController>);

impl PodsByPciAddress {
    /// Combines the device allocations in the kubelet's checkpoint with the pods in the watch cache. A device
    /// ID that is not a PCI address belongs to a shared device and is skipped.
    pub fn from_checkpoint(held_devices: &HeldDevices, pods: &WatchCache<PodOwner>) -> Self {
        let mut by_uid: BTreeMap<&str, Option<PodWithController>> = BTreeMap::new();
        let mut holders = BTreeMap::new();
        for ((_, id), uid) in held_devices {
            if id.parse::<ferroband_model::PciAddress>().is_err() {
                continue;
            }
            let owner = by_uid.entry(uid).or_insert_with(|| {
                let ((namespace, name), facts) = pods.find(|facts| facts.uid == *uid)?;
                Some(PodWithController { namespace, name, controller: facts.controller.clone() })
            });
            holders.extend(owner.clone().map(|owner| (id.clone(), owner)));
        }
        Self(holders)
    }

    /// Returns the pod that the device at `pci` is allocated to.
    pub fn get(&self, pci: &str) -> Option<&PodWithController> {
        self.0.get(pci)
    }

    #[cfg(test)]
    pub(super) fn single(pci: &str, owner: PodWithController) -> Self {
        Self(BTreeMap::from([(pci.to_owned(), owner)]))
    }
}
