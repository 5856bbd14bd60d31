//! Choice of devices for GetPreferredAllocation.

use crate::pools::AdvertisedDevice;
use std::{cmp::Reverse, collections::BTreeMap};

/// Chooses `size` device ids from `available`, including all of `must`. Prefers devices on different uplinks, then
/// devices that share the longest PCI path with one of the GPUs whose paths are in `near`, then devices on the NUMA
/// node of those already chosen, then devices on the uplink with most free devices.
pub fn choose_devices(
    devices: &[AdvertisedDevice],
    available: &[String],
    must: &[String],
    size: usize,
    near: &[Vec<String>],
) -> Vec<String> {
    let find = |id: &String| devices.iter().find(|device| device.id == *id);
    let mut chosen: Vec<String> = must.to_vec();
    let mut candidates: Vec<&AdvertisedDevice> =
        available.iter().filter(|id| !must.contains(id)).filter_map(find).collect();
    while chosen.len() < size && !candidates.is_empty() {
        let have: Vec<&AdvertisedDevice> = chosen.iter().filter_map(find).collect();
        let mut free: BTreeMap<&str, usize> = BTreeMap::new();
        for device in &candidates {
            *free.entry(&device.uplink).or_default() += 1;
        }
        let rank = |device: &AdvertisedDevice| {
            let same_uplink = have.iter().filter(|other| other.uplink == device.uplink).count();
            let affinity =
                near.iter().map(|gpu| common_prefix_length(gpu, &device.path)).max().unwrap_or_default();
            let numa = have.iter().filter(|other| other.numa.is_some() && other.numa == device.numa).count();
            let free = free.get(device.uplink.as_str()).copied().unwrap_or_default();
            // Different uplinks are most important: a job with eight rails needs eight cables, even if some of them
            // are far from its GPUs.
            (same_uplink, Reverse(affinity), Reverse(numa), Reverse(free))
        };
        let best = candidates
            .iter()
            .enumerate()
            .min_by_key(|(position, device)| (rank(device), *position))
            .map(|(position, _)| position);
        let Some(best) = best else { break };
        chosen.push(candidates.remove(best).id.clone());
    }
    chosen
}

/// Length of the common prefix of two PCI paths from the root complex.
fn common_prefix_length(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices() -> Vec<AdvertisedDevice> {
        let device = |uplink: &str, index: usize, numa: u32| AdvertisedDevice {
            id: format!("{uplink}.{index}"),
            healthy: true,
            numa: Some(numa),
            uplink: uplink.to_owned(),
            path: vec![format!("pci-{uplink}"), format!("switch-{uplink}")],
        };
        ["a", "b"]
            .iter()
            .zip(0..)
            .flat_map(|(uplink, numa)| (0..4).map(move |n| device(uplink, n, numa)))
            .collect()
    }

    fn ids(devices: &[AdvertisedDevice]) -> Vec<String> {
        devices.iter().map(|device| device.id.clone()).collect()
    }

    // Case: operator C91
    #[test]
    fn devices_near_the_gpu_on_different_uplinks_and_the_required_ones_are_chosen() {
        let devices = devices();
        let all = ids(&devices);
        let gpu =
            |uplink: &str| vec![vec![format!("pci-{uplink}"), format!("switch-{uplink}"), "gpu".to_owned()]];
        assert_eq!(choose_devices(&devices, &all, &[], 1, &gpu("b")), ["b.0"]);
        assert_eq!(choose_devices(&devices, &all, &[], 1, &gpu("a")), ["a.0"]);
        assert_eq!(choose_devices(&devices, &all, &[], 2, &gpu("a")), ["a.0", "b.0"]);
        let must = ["b.3".to_owned()];
        assert_eq!(choose_devices(&devices, &all, &must, 2, &[]), ["b.3", "a.0"]);
        for size in 0..=8 {
            assert_eq!(choose_devices(&devices, &all, &[], size, &[]).len(), size);
        }
        assert_eq!(
            choose_devices(&devices, &all[3..], &[], 1, &[]),
            ["b.0"],
            "the uplink with most free devices"
        );
    }
}
