//! Who holds functions: the kubelet's notes, and the pods that are still there.

use crate::{advertise, caches::PodOwner};
use ferroband_api::sriov::VfHolder;
use ferroband_daemon::watch_cache::WatchCache;
use ferroband_model::PciAddress;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Functions and the UIDs of the pods that hold them; nothing when the kubelet's notes are there but cannot be read.
pub type HolderUids = BTreeMap<PciAddress, BTreeSet<String>>;

/// Read the kubelet's notes in its folder of device plugins.
pub fn read_holder_uids(folder: &Path) -> Option<HolderUids> {
    let mut notes = HolderUids::new();
    match advertise::read_checkpoint(folder) {
        Some(held) => {
            for ((_, id), uid) in held {
                if let Ok(pci) = id.parse() {
                    notes.entry(pci).or_default().insert(uid);
                }
            }
            Some(notes)
        }
        // A kubelet that never gave anything out has none.
        None => (!folder.join("kubelet_internal_checkpoint").exists()).then_some(notes),
    }
}

/// The functions that pods hold which are still there: the kubelet forgets pods that ended only when the next one comes.
pub fn running_holders(
    notes: &HolderUids,
    pods: &WatchCache<PodOwner>,
) -> BTreeMap<PciAddress, Vec<VfHolder>> {
    let known: BTreeMap<String, (String, String)> =
        pods.list().into_iter().map(|(name, pod)| (pod.uid.clone(), name)).collect();
    let mut live: BTreeMap<PciAddress, Vec<VfHolder>> = BTreeMap::new();
    for (pci, uids) in notes {
        for uid in uids {
            let Some((namespace, name)) = known.get(uid) else { continue };
            live.entry(*pci).or_default().push(VfHolder {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
                devices: vec![pci.to_string()],
            });
        }
    }
    live
}

/// The holders of any of `touched`, each once, with what it holds of them.
pub fn holders_of(
    live: &BTreeMap<PciAddress, Vec<VfHolder>>,
    touched: &BTreeSet<PciAddress>,
) -> Vec<VfHolder> {
    let mut all: BTreeMap<String, VfHolder> = BTreeMap::new();
    for holder in live.iter().filter(|(pci, _)| touched.contains(pci)).flat_map(|(_, holders)| holders) {
        match all.get_mut(&holder.uid) {
            Some(known) => known.devices.extend(holder.devices.iter().cloned()),
            None => drop(all.insert(holder.uid.clone(), holder.clone())),
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort();
    all
}
