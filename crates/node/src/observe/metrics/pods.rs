//! Which pod a function belongs to.

use crate::{
    advertise::HeldDevices,
    caches::{PodOwner, WatchCache},
};
use std::collections::BTreeMap;

/// A pod, and what it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodWithController {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The API version, kind and name of its controller.
    pub controller: Option<(String, String, String)>,
}

impl PodWithController {
    /// Spiderpool's labels for it.
    pub(super) fn labels(&self) -> Vec<(&'static str, String)> {
        let (version, kind, name) = self.controller.clone().unwrap_or_default();
        // Whoever owns a pod is in its namespace.
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

/// The pods that hold a function, by its address.
#[derive(Clone, Debug, Default)]
pub struct PodsByPciAddress(BTreeMap<String, PodWithController>);

impl PodsByPciAddress {
    /// From what the kubelet notes and the pods that are known. Units that are no function are shared, and no pod's.
    pub fn from_checkpoint(held: &HeldDevices, pods: &WatchCache<PodOwner>) -> Self {
        let mut by_uid: BTreeMap<&str, Option<PodWithController>> = BTreeMap::new();
        let mut holders = BTreeMap::new();
        for ((_, id), uid) in held {
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

    /// Who holds `pci`.
    pub fn get(&self, pci: &str) -> Option<&PodWithController> {
        self.0.get(pci)
    }

    #[cfg(test)]
    pub(super) fn single(pci: &str, owner: PodWithController) -> Self {
        Self(BTreeMap::from([(pci.to_owned(), owner)]))
    }
}
