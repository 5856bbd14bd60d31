//! Whereabouts' own records, struck out one by one as their pods go.

use super::{
    before::{Before, Claim, Verdict},
    books::Books,
};
use crate::{Context, Error, Work};
use ferroband_address::{
    Entry, Space,
    whereabouts::{recorded, reservation_object},
};
use ferroband_api::whereabouts::{IPPool, IpAllocation, OverlappingRangeIPReservation};
use ferroband_daemon::{
    addresses::is_ours,
    call::{Failure, bounded, failure},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    time::Duration,
};
use tokio::sync::Mutex;
use tracing::info;

/// How often records that nothing can be said of are looked at.
const AGAIN: Duration = Duration::from_secs(20);

/// The work.
pub struct Struck {
    context: Context,
    books: Books,
    before: Before,
    /// Records that were seen in the granules: when they are not there any more, their sandboxes are gone.
    stood: Mutex<BTreeSet<(Space, IpAddr, String)>>,
}

impl Struck {
    /// Of these books.
    pub fn new(context: &Context, books: Books) -> Self {
        let before = Before::new(context, books.clone());
        Self { context: context.clone(), books, before, stood: Mutex::default() }
    }

    /// Write the pool without the records at `offsets`. An empty one goes: Whereabouts makes it again if it needs it.
    async fn strike(&self, pool: &IPPool, offsets: &BTreeSet<String>) -> Result<(), Error> {
        let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
        let api: Api<IPPool> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut left = pool.clone();
        left.spec.allocations.retain(|offset, _| !offsets.contains(offset));
        let written = if left.spec.allocations.is_empty() {
            // Exactly this state: whoever writes a record meanwhile wins.
            let preconditions = Preconditions { resource_version: pool.resource_version(), uid: pool.uid() };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            bounded(api.delete(&name, &parameters)).await.map(drop)
        } else {
            bounded(api.replace(&name, &PostParams::default(), &left)).await.map(drop)
        };
        match written {
            Ok(()) => info!(pool = name, records = offsets.len(), "struck out"),
            // The next pass sees how it is.
            Err(e) if matches!(failure(&e), Failure::Conflict | Failure::NotFound) => return Ok(()),
            Err(e) => return Err(Error::api("write", format!("IPPool {namespace}/{name}"))(e)),
        }
        for (offset, allocation) in pool.spec.allocations.iter().filter(|(key, _)| offsets.contains(*key)) {
            let Some((space, address)) = recorded(&name, &pool.spec.range, offset) else { continue };
            if let Some(reservation) = reservation_object(&space, address) {
                self.unreserve(&namespace, &reservation, &allocation.podref).await?;
            }
        }
        Ok(())
    }

    async fn unreserve(&self, namespace: &str, name: &str, pod: &str) -> Result<(), Error> {
        let api: Api<OverlappingRangeIPReservation> = Api::namespaced(self.context.client.clone(), namespace);
        let what = || format!("OverlappingRangeIPReservation {namespace}/{name}");
        let found = bounded(api.get_opt(name)).await.map_err(Error::api("get", what()))?;
        if !found.is_some_and(|found| !is_ours(&found) && found.spec.podref == pod) {
            return Ok(());
        }
        match bounded(api.delete(name, &DeleteParams::default())).await {
            Err(e) if failure(&e) != Failure::NotFound => Err(Error::api("delete", what())(e)),
            _ => Ok(()),
        }
    }
}

/// What a record is to the books.
#[derive(Debug, PartialEq)]
enum Standing {
    /// It stands there.
    Stands,
    /// It does not any more, or another sandbox of the pod has the address.
    Over,
    /// It does not, or somebody else has the address.
    Unknown,
}

fn standing(entry: Option<&Entry>, allocation: &IpAllocation, stood: bool) -> Standing {
    match entry {
        Some(entry) if entry.container == allocation.id => Standing::Stands,
        Some(entry) if entry.pod == allocation.podref => Standing::Over,
        None if stood => Standing::Over,
        _ => Standing::Unknown,
    }
}

impl Work for Struck {
    const NAME: &'static str = "taking over ranges";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        let Books { granules, ranges, sets, .. } = &self.books;
        if !(granules.is_complete() && ranges.is_complete() && sets.is_complete()) {
            return Ok(Some(AGAIN));
        }
        let seen = granules.all();
        let entries: HashMap<(&Space, IpAddr), &Entry> = seen
            .iter()
            .flat_map(|(_, seen)| {
                let granule = &seen.granule;
                granule.entries.iter().map(|(at, entry)| ((&granule.space, granule.address(*at)), entry))
            })
            .collect();
        let mut stood = self.stood.lock().await;
        let (mut right, mut open) = (Vec::new(), false);
        for (_, pool) in ranges.all() {
            let mut over = BTreeSet::new();
            for (offset, allocation) in &pool.spec.allocations {
                let Some((space, address)) = recorded(&pool.name_any(), &pool.spec.range, offset) else {
                    continue;
                };
                let entry = entries.get(&(&space, address)).copied();
                let key = (space.clone(), address, allocation.id.clone());
                match standing(entry, allocation, stood.contains(&key)) {
                    Standing::Stands => drop(stood.insert(key)),
                    Standing::Over => drop(over.insert(offset.clone())),
                    Standing::Unknown if entry.is_some() => open = true,
                    Standing::Unknown => {
                        let claim = Claim {
                            space,
                            address,
                            pod: allocation.podref.clone(),
                            uid: None,
                            interface: allocation.ifname.clone().filter(|name| !name.is_empty()),
                            container: Some(allocation.id.clone()),
                            pool: pool.spec.range.clone(),
                        };
                        match self.before.judge(&claim).await? {
                            Verdict::Holds(entry) => right.push((claim, entry)),
                            Verdict::Lost => drop(over.insert(offset.clone())),
                            Verdict::Open => open = true,
                        }
                    }
                }
            }
            if !over.is_empty() {
                self.strike(&pool, &over).await?;
            }
        }
        self.before.take_over(right).await?;
        Ok(open.then_some(AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn w41_a_record_goes_when_its_sandbox_does_and_never_for_somebody_else() {
        let record = IpAllocation { id: "c".into(), podref: "ns/p".into(), ifname: None };
        let entry = |pod: &str, container: &str| -> Entry {
            let entry =
                json!({"pod": pod, "uid": "u", "interface": "net1", "container": container, "node": "n"});
            serde_json::from_value(entry).unwrap()
        };
        assert_eq!(standing(Some(&entry("ns/p", "c")), &record, false), Standing::Stands);
        assert_eq!(standing(Some(&entry("ns/p", "d")), &record, false), Standing::Over);
        assert_eq!(standing(Some(&entry("ns/q", "d")), &record, true), Standing::Unknown);
        assert_eq!(standing(None, &record, true), Standing::Over);
        assert_eq!(standing(None, &record, false), Standing::Unknown);
    }
}
