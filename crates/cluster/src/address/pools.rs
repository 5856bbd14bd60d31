//! What SpiderIPPools show: how far they are used, by whom, and whether they can be.

use super::{before::Before, books::Books, endpoint, foreign};
use crate::{Context, Error, Work};
use ferroband_address::{
    Entry, Space,
    spiderpool::{Conflict, IpPool, conflicts},
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderIPPoolStatus};
use ferroband_daemon::{
    addresses::{OURS, Record, read_pool},
    call::{Failure, bounded, failure},
    condition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The shortest time between two writes of one pool's status.
const RARELY: Duration = Duration::from_secs(10);
/// Keeps a pool that is in use from disappearing. Spiderpool's own name for it.
const FINALIZER: &str = "spiderpool.spidernet.io";

/// The work.
pub struct Pools {
    context: Context,
    books: Books,
    before: Before,
    written: Mutex<HashMap<String, Instant>>,
}

/// Who has what of a pool.
pub type Held<'a> = BTreeMap<IpAddr, &'a Entry>;

impl Pools {
    /// Of these granules.
    pub fn new(context: &Context, books: Books) -> Self {
        let before = Before::new(context, books.clone());
        Self { context: context.clone(), books, before, written: Mutex::default() }
    }

    fn may_write(&self, name: &str) -> bool {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(name).is_none_or(|at| at.elapsed() >= RARELY)
    }

    fn wrote(&self, name: &str) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Instant::now());
    }

    /// Write what differs; `false` if that has to wait.
    async fn show(&self, pool: &SpiderIPPool, status: SpiderIPPoolStatus, used: bool) -> Result<bool, Error> {
        let name = pool.name_any();
        let api: Api<SpiderIPPool> = Api::all(self.context.client.clone());
        let forgiven = |e: kube::Error, action| match failure(&e) {
            Failure::Conflict | Failure::NotFound => Ok(()),
            _ => Err(Error::api(action, format!("SpiderIPPool {name}"))(e)),
        };
        let terminating = pool.metadata.deletion_timestamp.is_some();
        let guarded = pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        // One that is being deleted takes no new finalizer.
        let change = if guarded { terminating && !used } else { !terminating };
        if change {
            let mut finalizers = pool.finalizers().to_vec();
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            if !terminating {
                finalizers.push(FINALIZER.to_owned());
            }
            let version = pool.resource_version();
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
            match bounded(api.patch(&name, &parameters, &patch)).await {
                Ok(_) => {}
                Err(e) => forgiven(e, "patch")?,
            }
        }
        if same(pool.status.as_ref(), &status) {
            return Ok(true);
        }
        if !self.may_write(&name) {
            return Ok(false);
        }
        let patch = json!({ "status": status });
        self.wrote(&name);
        match bounded(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))).await {
            Ok(_) => Ok(true),
            Err(e) => forgiven(e, "patch the status of").map(|()| true),
        }
    }
}

impl Work for Pools {
    const NAME: &'static str = "showing pools";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        if !(self.books.granules.is_complete() && self.books.pools.is_complete()) {
            return Ok(Some(RARELY));
        }
        if foreign::leads(&self.context.client, foreign::SPIDERPOOL).await? {
            return Ok(Some(RARELY));
        }
        let granules: Vec<_> = self.books.granules.all().into_iter().map(|(_, seen)| seen).collect();
        let mut held: HashMap<&str, Held<'_>> = HashMap::new();
        for seen in granules.iter().filter(|seen| seen.granule.space == Space::default_space()) {
            for (offset, entry) in &seen.granule.entries {
                held.entry(&entry.pool).or_default().insert(seen.granule.address(*offset), entry);
            }
        }
        let mut pools: Vec<_> = self.books.pools.all().into_iter().map(|(_, pool)| pool).collect();
        // The older one was there first.
        pools.sort_by_key(|pool| (pool.creation_timestamp().map(|at| at.0), pool.name_any()));
        let mut standing: Vec<IpPool> = Vec::new();
        let mut all_shown = true;
        for pool in &pools {
            let none = Held::new();
            let held = held.get(pool.name_any().as_str()).unwrap_or(&none);
            let reading = read_pool(pool);
            let conflict = reading.as_ref().ok().and_then(|pool| conflicts(pool, &standing).next());
            let (ready, reason, message) = match (&reading, &conflict) {
                (Err(e), _) => (false, "Invalid", e.to_string()),
                (Ok(_), Some(conflict)) => (false, reason(conflict), conflict.to_string()),
                (Ok(pool), None) => (true, "Ready", told(pool)),
            };
            let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let ready = Condition {
                observed_generation: pool.metadata.generation,
                ..condition(before, "Ready", Some(ready), reason, message)
            };
            let foreign = self.before.records(pool, held).await?;
            all_shown &= foreign.is_empty();
            let records = allocated(held, foreign);
            let status = SpiderIPPoolStatus {
                allocated_ip_count: Some(count(records.len())),
                total_ip_count: Some(total(reading.as_ref().ok())),
                allocated_ips: (!records.is_empty()).then(|| serde_json::to_string(&records).ok()).flatten(),
                conditions: vec![ready],
            };
            let used = status.allocated_ips.is_some();
            all_shown &= self.show(pool, status, used).await?;
            standing.extend(reading.ok().filter(|_| conflict.is_none()));
        }
        let gateways = pools.iter().map(|pool| (pool.name_any(), (**pool).clone())).collect();
        endpoint::show(&self.context, &self.books, &held, &gateways).await?;
        Ok((!all_shown).then_some(RARELY))
    }
}

fn reason(conflict: &Conflict) -> &'static str {
    match conflict {
        Conflict::Addresses { .. } => "Overlaps",
        Conflict::Subnets { .. } => "SubnetOverlaps",
    }
}

fn told(pool: &IpPool) -> String {
    let warnings: Vec<_> = pool.warnings.iter().map(ToString::to_string).collect();
    if warnings.is_empty() { "gives out addresses".to_owned() } else { warnings.join("; ") }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn total(pool: Option<&IpPool>) -> i64 {
    pool.map_or(0, |pool| i64::try_from(pool.total()).unwrap_or(i64::MAX))
}

/// The records as Spiderpool writes them, and those that it wrote itself.
fn allocated(held: &Held<'_>, foreign: Vec<(IpAddr, Record)>) -> BTreeMap<IpAddr, Record> {
    let ours = held.iter().map(|(address, entry)| {
        let record = Record {
            pod: entry.pod.clone(),
            pod_uid: entry.uid.clone(),
            interface: Some(entry.interface.clone()),
            by: Some(OURS.to_owned()),
        };
        (*address, record)
    });
    foreign.into_iter().chain(ours).collect()
}

/// Whether what is shown is what should be.
fn same(shown: Option<&SpiderIPPoolStatus>, wanted: &SpiderIPPoolStatus) -> bool {
    shown == Some(wanted)
}
