//! What the systems before us had given out, taken over while its pods live.
//!
//! ```text
//!  record of Whereabouts or Spiderpool ─▶ its pod is there, and says it has the address ─▶ an entry in the granule: from
//!                                     │                                          then on the node releases it like ours
//!                                     ├─▶ there is no such pod, on any node    ─▶ the record is nobody's
//!                                     └─▶ anything else                        ─▶ the record stands, and is given to nobody
//! ```

use super::{books::Books, fence::Fence, pools::Held, stateful::set_and_ordinal};
use crate::{Context, Error};
use ferroband_address::{Entry, Granule, GranuleId, Space};
use ferroband_api::{annotation::NETWORK_STATUS, ferroband::AddressGranule, spiderpool::SpiderIPPool};
use ferroband_daemon::{
    addresses::{Record, is_stateful, object_of, records_of},
    call::{Failure, bounded, failure},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::info;

/// How long there must be no pod.
const DOUBT: Duration = Duration::from_secs(30);

/// One record.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Where the address is unique.
    pub space: Space,
    /// The address.
    pub address: IpAddr,
    /// The pod, `<namespace>/<name>`.
    pub pod: String,
    /// Its UID, where the record has it.
    pub uid: Option<String>,
    /// Its interface, where the record has it.
    pub interface: Option<String>,
    /// Its sandbox, where the record has it.
    pub container: Option<String>,
    /// The range or pool.
    pub pool: String,
}

/// What becomes of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is right: this is its entry.
    Holds(Entry),
    /// It is nobody's.
    Lost,
    /// That cannot be said, or not yet.
    Open,
}

/// The judge.
pub struct Before {
    context: Context,
    books: Books,
    /// Since when there has been no such pod.
    doubted: Mutex<BTreeMap<(String, IpAddr), Instant>>,
}

impl Before {
    /// By what these books say.
    pub fn new(context: &Context, books: Books) -> Self {
        Self { context: context.clone(), books, doubted: Mutex::default() }
    }

    /// What becomes of the record. The API server is asked: a cache may be behind.
    pub async fn judge(&self, claim: &Claim) -> Result<Verdict, Error> {
        let Some((namespace, name)) = claim.pod.split_once('/') else { return Ok(Verdict::Open) };
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), namespace);
        let what = format!("pod {}", claim.pod);
        let pod = bounded(api.get_opt(name)).await.map_err(Error::api("get", what))?;
        let set = set_and_ordinal(name)
            .and_then(|(set, ordinal)| Some(self.books.sets.get(namespace, set)?.contains(ordinal)));
        let verdict = judge(claim, pod.as_ref(), set.unwrap_or_default());
        if verdict == Verdict::Lost && !self.is_sure(claim).await? {
            return Ok(Verdict::Open);
        }
        Ok(verdict)
    }

    /// Whether a pod that is not there has no sandbox either: for a while there has been none, and every node answers, so
    /// its kubelet has ended what it should not run.
    async fn is_sure(&self, claim: &Claim) -> Result<bool, Error> {
        let record = (claim.pod.clone(), claim.address);
        let since = *self
            .doubted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(record)
            .or_insert_with(Instant::now);
        if since.elapsed() < DOUBT {
            return Ok(false);
        }
        let api: Api<Node> = Api::all(self.context.client.clone());
        let nodes = bounded(api.list(&ListParams::default())).await.map_err(Error::api("list", "Nodes"))?;
        Ok(nodes.items.iter().all(answers))
    }

    /// Write the entries into their granules; what another writes there meanwhile wins, and the next pass tries again.
    pub async fn take_over(&self, held: Vec<(Claim, Entry)>) -> Result<(), Error> {
        let mut granules: BTreeMap<GranuleId, BTreeMap<u8, Entry>> = BTreeMap::new();
        for (claim, entry) in held {
            let (id, offset) = GranuleId::containing(&claim.space, claim.address);
            info!(address = %claim.address, pod = entry.pod, interface = entry.interface, "taken over");
            granules.entry(id).or_default().insert(offset, entry);
        }
        let api: Api<AddressGranule> = Api::all(self.context.client.clone());
        for (id, entries) in granules {
            let name = id.object_name();
            let seen = self.books.granules.get("", &name);
            let mut granule =
                seen.as_ref().map_or_else(|| Granule::new(id, None), |seen| seen.granule.clone());
            for (offset, entry) in entries {
                granule.entries.entry(offset).or_insert(entry);
            }
            let object = object_of(&granule, seen.as_ref().map(|seen| &seen.version));
            let written = match seen {
                Some(_) => bounded(api.replace(&name, &PostParams::default(), &object)).await,
                None => bounded(api.create(&PostParams::default(), &object)).await,
            };
            match written {
                Err(e) if !matches!(failure(&e), Failure::Conflict | Failure::NotFound) => {
                    return Err(Error::api("write", format!("AddressGranule {name}"))(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The records of a pool that Spiderpool wrote and that still count; those of living pods are taken over.
    pub async fn records(
        &self,
        pool: &SpiderIPPool,
        held: &Held<'_>,
    ) -> Result<Vec<(IpAddr, Record)>, Error> {
        let mut standing = Vec::new();
        let mut right = Vec::new();
        // One that stands in our books is shown from there.
        let foreign = |(address, record): &(IpAddr, Record)| !record.is_ours() && !held.contains_key(address);
        for (address, record) in records_of(pool).into_iter().filter(foreign) {
            let claim = Claim {
                space: Space::default_space(),
                address,
                pod: record.pod.clone(),
                uid: Some(record.pod_uid.clone()),
                interface: self.interface(&record, address),
                container: None,
                pool: pool.name_any(),
            };
            match self.judge(&claim).await? {
                Verdict::Lost => {
                    info!(%address, pod = record.pod, "a record of Spiderpool is nobody's");
                    continue;
                }
                Verdict::Holds(entry) => right.push((claim, entry)),
                Verdict::Open => {}
            }
            standing.push((address, record));
        }
        self.take_over(right).await?;
        Ok(standing)
    }

    /// The interface that the pod's endpoint has the address on.
    fn interface(&self, record: &Record, address: IpAddr) -> Option<String> {
        let (namespace, name) = record.pod.split_once('/')?;
        let endpoint = self.books.endpoints.get(namespace, name)?;
        let current = &endpoint.status.as_ref()?.current;
        let written = |text: &Option<String>| {
            let text = text.as_deref().and_then(|text| text.split('/').next());
            text.and_then(|text| text.parse().ok()) == Some(address)
        };
        let ip = current.ips.iter().find(|ip| written(&ip.ipv4) || written(&ip.ipv6))?;
        (current.uid == record.pod_uid).then(|| ip.interface.clone())
    }
}

/// Whether the node tells what it runs, or runs nothing.
fn answers(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    ready || Fence::of(node) == Fence::OutOfService
}

/// What becomes of the record, given its pod, and whether a StatefulSet has one of that name.
fn judge(claim: &Claim, pod: Option<&Pod>, awaited: bool) -> Verdict {
    let same = |pod: &&Pod| claim.uid.is_none() || claim.uid == pod.uid();
    let Some(pod) = pod.filter(same) else {
        // Spiderpool keeps the addresses of StatefulSets from one pod of a name to the next.
        return match (&claim.uid, &claim.interface) {
            (Some(uid), Some(interface)) if awaited => {
                Verdict::Holds(entry(claim, uid, "", interface, String::new(), true))
            }
            _ => Verdict::Lost,
        };
    };
    let uid = pod.uid().unwrap_or_default();
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
        return Verdict::Open;
    };
    let Some(said) = says(pod, claim.address) else { return Verdict::Open };
    let interface = claim.interface.clone().unwrap_or(said);
    // Spiderpool does not write the sandbox down. The node looks for the address in its namespaces then.
    let container = claim.container.clone().unwrap_or_else(|| format!("before-{uid}"));
    Verdict::Holds(entry(claim, &uid, node, &interface, container, is_stateful(&pod.metadata)))
}

fn entry(claim: &Claim, uid: &str, node: &str, interface: &str, container: String, sticky: bool) -> Entry {
    Entry {
        pod: claim.pod.clone(),
        uid: uid.to_owned(),
        sticky,
        interface: interface.to_owned(),
        ordinal: 0,
        container,
        node: node.to_owned(),
        pool: claim.pool.clone(),
    }
}

/// The interface that the pod says it has the address on.
fn says(pod: &Pod, address: IpAddr) -> Option<String> {
    let is = |text: &str| text.parse() == Ok(address);
    let status: Vec<Value> = pod
        .annotations()
        .get(NETWORK_STATUS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let listed = status
        .iter()
        .find(|entry| entry["ips"].as_array().into_iter().flatten().filter_map(Value::as_str).any(is));
    let own = || {
        let ips = pod.status.as_ref()?.pod_ips.as_ref()?;
        ips.iter().any(|ip| is(&ip.ip)).then(|| "eth0".to_owned())
    };
    listed.and_then(|entry| entry["interface"].as_str().map(str::to_owned)).or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(uid: Option<&str>) -> Claim {
        Claim {
            space: Space::default_space(),
            address: [10, 0, 0, 5].into(),
            pod: "ns/db-0".into(),
            uid: uid.map(str::to_owned),
            interface: None,
            container: uid.is_none().then(|| "c".to_owned()),
            pool: "10.0.0.0/24".into(),
        }
    }

    fn pod(status: &Value, owner: &str) -> Pod {
        let object = json!({
            "metadata": {
                "name": "db-0", "namespace": "ns", "uid": "u", "annotations": {NETWORK_STATUS: status.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "db", "uid": "o", "controller": true}],
            },
            "spec": {"nodeName": "n", "containers": []}, "status": {"podIPs": [{"ip": "10.1.0.1"}]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_record_counts_as_long_as_its_pod_says_so() {
        let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
        let Verdict::Holds(held) = judge(&claim(None), Some(&pod(&has, "ReplicaSet")), false) else {
            panic!()
        };
        assert_eq!(
            (held.interface.as_str(), held.container.as_str(), held.node.as_str()),
            ("net1", "c", "n")
        );
        assert_eq!((held.uid.as_str(), held.sticky), ("u", false));
        let other = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.6"]}]);
        assert_eq!(judge(&claim(None), Some(&pod(&other, "ReplicaSet")), false), Verdict::Open);
        assert_eq!(judge(&claim(None), None, true), Verdict::Lost);
        let default = Claim { address: [10, 1, 0, 1].into(), ..claim(Some("u")) };
        let Verdict::Holds(held) = judge(&default, Some(&pod(&other, "ReplicaSet")), false) else { panic!() };
        assert_eq!((held.interface.as_str(), held.container.as_str()), ("eth0", "before-u"));
    }

    #[test]
    fn g01_a_node_that_nobody_reaches_may_still_have_what_it_had() {
        let node = |ready: &str, taints: Value| -> Node {
            let object = json!({"metadata": {"name": "n"}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            serde_json::from_value(object).unwrap()
        };
        assert!(answers(&node("True", json!([]))));
        assert!(!answers(&node("Unknown", json!([]))));
        let fenced = json!([{"key": super::super::fence::OUT_OF_SERVICE, "effect": "NoExecute"}]);
        assert!(answers(&node("Unknown", fenced)));
    }

    #[test]
    fn s_records_of_a_statefulset_wait_for_the_next_pod_of_that_name() {
        let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
        let pod = pod(&has, "StatefulSet");
        assert!(matches!(judge(&claim(Some("u")), Some(&pod), true), Verdict::Holds(held) if held.sticky));
        let known = Claim { interface: Some("net1".into()), ..claim(Some("old")) };
        assert!(matches!(judge(&known, Some(&pod), true), Verdict::Holds(held) if held.is_waiting()));
        assert_eq!(judge(&known, Some(&pod), false), Verdict::Lost);
        assert_eq!(judge(&claim(Some("old")), None, true), Verdict::Lost);
    }
}
