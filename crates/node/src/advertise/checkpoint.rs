//! Which units pods hold, from the kubelet's own notes.
//!
//! `kubelet_internal_checkpoint` lies in the folder that a device plugin has anyway, so this works without a network, an
//! API server and the PodResources socket. It is the kubelet's own file (`pkg/kubelet/cm/devicemanager/checkpoint`): what
//! cannot be read in it is not known, and nothing but caution depends on it.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// The kubelet's file in the folder of device plugins.
const CHECKPOINT: &str = "kubelet_internal_checkpoint";

/// Who holds what: resource and id to the UID of the pod.
pub type HeldDevices = BTreeMap<(String, String), String>;

/// Read it in the folder of device plugins; nothing when it is not known.
pub fn read_checkpoint(folder: &Path) -> Option<HeldDevices> {
    let text = fs::read_to_string(folder.join(CHECKPOINT)).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let mut held = HeldDevices::new();
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

/// How long a unit must be missing from what the kubelet says of its pods before its note is old: a kubelet that starts
/// says nothing of its pods for a while.
const STALE_AFTER: Duration = Duration::from_secs(30);

/// Tells notes about pods from notes about pods that are gone.
///
/// The kubelet cleans its file only when it gives out devices the next time, which may be never. What it says when it is
/// asked is true at once, but not while it starts. So a note counts until the kubelet has not known of it for a while.
#[derive(Debug, Default)]
pub struct StaleCheckpointEntries {
    missing_since: BTreeMap<(String, String), Instant>,
}

impl StaleCheckpointEntries {
    /// Leave out of `held` what is old. `given` is what the kubelet says, if it says anything.
    pub fn remove_stale(
        &mut self,
        held: &mut HeldDevices,
        given: Option<&BTreeSet<(String, String)>>,
        now: Instant,
    ) {
        let Some(given) = given else {
            self.missing_since.clear();
            return;
        };
        self.missing_since.retain(|unit, _| held.contains_key(unit) && !given.contains(unit));
        held.retain(|unit, _| {
            given.contains(unit)
                || now.duration_since(*self.missing_since.entry(unit.clone()).or_insert(now)) < STALE_AFTER
        });
    }

    /// When a note will be old, if nothing is heard of it.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.missing_since.values().map(|since| *since + STALE_AFTER).filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelets_notes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_checkpoint(folder.path()), None);
        let text = r#"{"Data":{"PodDeviceEntries":[
            {"PodUID":"u1","ContainerName":"c","ResourceName":"a.b/vf","DeviceIDs":{"0":["0000:3b:00.2"],"-1":["x"]},"AllocResp":""},
            {"PodUID":"u2","ContainerName":"c","ResourceName":"jarvice.com/rdma","DeviceIDs":null}],
            "RegisteredDevices":{}},"Checksum":1}"#;
        fs::write(folder.path().join(CHECKPOINT), text).unwrap();
        let held = read_checkpoint(folder.path()).unwrap();
        let key = |id: &str| ("a.b/vf".to_owned(), id.to_owned());
        assert_eq!(
            held.into_iter().collect::<Vec<_>>(),
            [(key("0000:3b:00.2"), "u1".to_owned()), (key("x"), "u1".to_owned())]
        );
    }

    #[test]
    fn a_note_about_a_pod_that_is_gone_gets_old_and_one_that_the_kubelet_confirms_does_not() {
        let unit = |id: &str| ("a.b/vf".to_owned(), id.to_owned());
        let notes: HeldDevices = ["gone", "there"].map(|id| (unit(id), "u".to_owned())).into();
        let said = BTreeSet::from([unit("there")]);
        let (mut departed, begin) = (StaleCheckpointEntries::default(), Instant::now());
        let mut look = |given: Option<&BTreeSet<(String, String)>>, after: u64| {
            let mut held = notes.clone();
            departed.remove_stale(&mut held, given, begin + Duration::from_secs(after));
            let due = departed
                .next_deadline(begin + Duration::from_secs(after))
                .map(|due| due.duration_since(begin));
            (held.len(), due.map(|due| due.as_secs()))
        };
        assert_eq!(look(Some(&said), 0), (2, Some(30)));
        assert_eq!(look(Some(&said), 29), (2, Some(30)));
        assert_eq!(look(Some(&said), 30), (1, None));
        // A kubelet that starts: away, then without pods, then with them.
        assert_eq!(look(None, 31), (2, None));
        assert_eq!(look(Some(&BTreeSet::new()), 32), (2, Some(62)));
        assert_eq!(look(Some(&said), 40), (2, Some(62)));
        assert_eq!(look(Some(&said), 70), (1, None));
    }
}
