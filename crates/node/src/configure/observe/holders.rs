//! Finds the pods that hold virtual functions. These are the pods in the kubelet's checkpoint that still
//! exist.

use crate::{caches::PodOwner, kubelet};
use ferroband_api::sriov::VfHolder;
use ferroband_daemon::watch_cache::WatchCache;
use ferroband_model::PciAddress;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// UIDs of the pods that hold each function.
pub type HolderUids = BTreeMap<PciAddress, BTreeSet<String>>;

/// Pods that hold a virtual function, by PCI address.
pub type RunningHolders = BTreeMap<PciAddress, Vec<VfHolder>>;

/// Reads the kubelet's checkpoint in the device plugin directory `dir`. Returns `None` if it exists but
/// cannot be parsed.
pub fn read_holder_uids(dir: &Path) -> Option<HolderUids> {
    let mut uids = HolderUids::new();
    match kubelet::read_checkpoint(dir) {
        Some(held) => {
            for ((_, id), uid) in held {
                if let Ok(pci) = id.parse() {
                    uids.entry(pci).or_default().insert(uid);
                }
            }
            Some(uids)
        }
        // A kubelet that never allocated a device has no checkpoint, so no pod holds a function.
        None => (!dir.join("kubelet_internal_checkpoint").exists()).then_some(uids),
    }
}

/// Returns the holders of each function, limited to pods that still exist. The kubelet removes finished pods from
/// its checkpoint only at the next allocation.
pub fn running_holders(uids: &HolderUids, pods: &WatchCache<PodOwner>) -> RunningHolders {
    let pod_names: BTreeMap<String, (String, String)> =
        pods.list().into_iter().map(|(name, pod)| (pod.uid.clone(), name)).collect();
    let mut holders = RunningHolders::new();
    for (pci, uids) in uids {
        for uid in uids {
            let Some((namespace, name)) = pod_names.get(uid) else { continue };
            holders.entry(*pci).or_default().push(VfHolder {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
                devices: vec![pci.to_string()],
            });
        }
    }
    holders
}

/// Returns the pods that hold at least one of `functions`. Each pod is listed once, with all of these
/// functions that it holds.
pub fn holders_of(holders: &RunningHolders, functions: &BTreeSet<PciAddress>) -> Vec<VfHolder> {
    let mut all: BTreeMap<String, VfHolder> = BTreeMap::new();
    for holder in holders.iter().filter(|(pci, _)| functions.contains(pci)).flat_map(|(_, holders)| holders) {
        match all.get_mut(&holder.uid) {
            Some(merged) => merged.devices.extend(holder.devices.iter().cloned()),
            None => drop(all.insert(holder.uid.clone(), holder.clone())),
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort();
    all
}
