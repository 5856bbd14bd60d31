//! Which units go well together.

use crate::pools::AdvertisedDevice;
use std::{cmp::Reverse, collections::BTreeMap};

/// Choose `size` of `available`, with all of `must`: near the GPUs whose ways from the root complex are `near`, then on
/// the NUMA node of what is chosen already, then each behind another cable, then where most are free.
pub fn choose_devices(
    units: &[AdvertisedDevice],
    available: &[String],
    must: &[String],
    size: usize,
    near: &[Vec<String>],
) -> Vec<String> {
    let find = |id: &String| units.iter().find(|unit| unit.id == *id);
    let mut chosen: Vec<String> = must.to_vec();
    let mut left: Vec<&AdvertisedDevice> =
        available.iter().filter(|id| !must.contains(id)).filter_map(find).collect();
    while chosen.len() < size && !left.is_empty() {
        let have: Vec<&AdvertisedDevice> = chosen.iter().filter_map(find).collect();
        let mut free: BTreeMap<&str, usize> = BTreeMap::new();
        for unit in &left {
            *free.entry(&unit.uplink).or_default() += 1;
        }
        let rank = |unit: &AdvertisedDevice| {
            let rail = have.iter().filter(|other| other.uplink == unit.uplink).count();
            let affinity =
                near.iter().map(|gpu| common_prefix_length(gpu, &unit.path)).max().unwrap_or_default();
            let numa = have.iter().filter(|other| other.numa.is_some() && other.numa == unit.numa).count();
            let free = free.get(unit.uplink.as_str()).copied().unwrap_or_default();
            // One behind each cable comes first: eight rails want eight cables, wherever they end.
            (rail, Reverse(affinity), Reverse(numa), Reverse(free))
        };
        let best = left.iter().enumerate().min_by_key(|(at, unit)| (rank(unit), *at)).map(|(at, _)| at);
        let Some(best) = best else { break };
        chosen.push(left.remove(best).id.clone());
    }
    chosen
}

/// How far two ways from the root complex go together.
fn common_prefix_length(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units() -> Vec<AdvertisedDevice> {
        let unit = |rail: &str, index: usize, numa: u32| AdvertisedDevice {
            id: format!("{rail}.{index}"),
            healthy: true,
            numa: Some(numa),
            uplink: rail.to_owned(),
            path: vec![format!("pci-{rail}"), format!("switch-{rail}")],
        };
        ["a", "b"].iter().zip(0..).flat_map(|(rail, numa)| (0..4).map(move |n| unit(rail, n, numa))).collect()
    }

    fn ids(units: &[AdvertisedDevice]) -> Vec<String> {
        units.iter().map(|unit| unit.id.clone()).collect()
    }

    #[test]
    fn c91_near_the_gpu_one_for_each_rail_and_what_must_be() {
        let units = units();
        let all = ids(&units);
        let gpu = |rail: &str| vec![vec![format!("pci-{rail}"), format!("switch-{rail}"), "gpu".to_owned()]];
        assert_eq!(choose_devices(&units, &all, &[], 1, &gpu("b")), ["b.0"]);
        assert_eq!(choose_devices(&units, &all, &[], 1, &gpu("a")), ["a.0"]);
        assert_eq!(choose_devices(&units, &all, &[], 2, &gpu("a")), ["a.0", "b.0"]);
        let must = ["b.3".to_owned()];
        assert_eq!(choose_devices(&units, &all, &must, 2, &[]), ["b.3", "a.0"]);
        for size in 0..=8 {
            assert_eq!(choose_devices(&units, &all, &[], size, &[]).len(), size);
        }
        assert_eq!(choose_devices(&units, &all[3..], &[], 1, &[]), ["b.0"], "where most are free");
    }
}
