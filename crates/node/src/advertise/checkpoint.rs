//! Finds entries of the kubelet's device manager checkpoint that are stale.

use crate::kubelet::HeldDevices;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How long a device must be missing from the PodResources API before its checkpoint entry is stale. A starting
/// kubelet reports no pods for a while.
const STALE_AFTER: Duration = Duration::from_secs(30);

/// Finds checkpoint entries of pods that are gone.
///
/// The kubelet cleans its checkpoint only when it allocates devices the next time, which may be never. The
/// PodResources API is accurate, except while the kubelet starts. An entry therefore becomes
/// stale only after the API has not listed it for `STALE_AFTER`.
#[derive(Debug, Default)]
pub struct StaleCheckpointEntries {
    missing_since: BTreeMap<(String, String), Instant>,
}

impl StaleCheckpointEntries {
    /// Removes stale entries from `held`. `reported` are the (resource name, device id) pairs from the
    /// PodResources API, or `None` if the kubelet does not answer.
    pub fn remove_stale(
        &mut self,
        held: &mut HeldDevices,
        reported: Option<&BTreeSet<(String, String)>>,
        now: Instant,
    ) {
        let Some(reported) = reported else {
            self.missing_since.clear();
            return;
        };
        self.missing_since.retain(|device, _| held.contains_key(device) && !reported.contains(device));
        held.retain(|device, _| {
            reported.contains(device)
                || now.duration_since(*self.missing_since.entry(device.clone()).or_insert(now)) < STALE_AFTER
        });
    }

    /// Returns when the next entry becomes stale, or `None` if no entry is missing from the PodResources API.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.missing_since.values().map(|since| *since + STALE_AFTER).filter(|deadline| *deadline > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_stale_once_the_kubelet_has_not_reported_it_for_a_while() {
        let device = |id: &str| ("a.b/vf".to_owned(), id.to_owned());
        let entries: HeldDevices = ["gone", "there"].map(|id| (device(id), "u".to_owned())).into();
        let listed = BTreeSet::from([device("there")]);
        let (mut stale, begin) = (StaleCheckpointEntries::default(), Instant::now());
        let mut remove_at = |reported: Option<&BTreeSet<(String, String)>>, after: u64| {
            let mut held = entries.clone();
            stale.remove_stale(&mut held, reported, begin + Duration::from_secs(after));
            let deadline = stale
                .next_deadline(begin + Duration::from_secs(after))
                .map(|deadline| deadline.duration_since(begin));
            (held.len(), deadline.map(|deadline| deadline.as_secs()))
        };
        assert_eq!(remove_at(Some(&listed), 0), (2, Some(30)));
        assert_eq!(remove_at(Some(&listed), 29), (2, Some(30)));
        assert_eq!(remove_at(Some(&listed), 30), (1, None));
        // A starting kubelet first does not answer, then reports no pods, then all pods. An entry becomes
        // stale only 30 seconds after the first answer without it.
        assert_eq!(remove_at(None, 31), (2, None));
        assert_eq!(remove_at(Some(&BTreeSet::new()), 32), (2, Some(62)));
        assert_eq!(remove_at(Some(&listed), 40), (2, Some(62)));
        assert_eq!(remove_at(Some(&listed), 70), (1, None));
    }
}
