//! What the systems before us had given out, taken over while its pods live.
//!
//! ```text
//!  record of Whereabouts or Spiderpool ─▶ its pod is there, and says it has the address ─▶ an entry in the granule: from
//!                                     │                                          then on the node releases it like ours
//!                                     ├─▶ there is no such pod, on any node    ─▶ the record is nobody's
//!                                     └─▶ anything else                        ─▶ the record stands, and is given to nobody
//! ```

use super::{
    caches::AddressCaches, node_fencing::NodeFencing, spider_pools::PoolAllocations,
    statefulset::split_pod_name,
};
use crate::{ControllerContext, Error};
use ferroband_address::{AddressAllocation, IpBlock, IpBlockId, IpSpace};
use ferroband_api::{annotation::NETWORK_STATUS, ferroband::AddressBlock, spiderpool::SpiderIPPool};
use ferroband_daemon::{
    addresses::{SpiderpoolRecord, allocation_records, block_to_object, is_stateful},
    api_call::{ApiFailure, classify, with_timeout},
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
const ABSENCE_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// One record.
#[derive(Clone, Debug)]
pub struct LegacyAllocation {
    /// Where the address is unique.
    pub space: IpSpace,
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
pub enum ImportDecision {
    /// It is right: this is its entry.
    Import(AddressAllocation),
    /// It is nobody's.
    Stale,
    /// That cannot be said, or not yet.
    Undecided,
}

/// The judge.
pub struct LegacyImporter {
    context: ControllerContext,
    caches: AddressCaches,
    /// Since when there has been no such pod.
    absent_since: Mutex<BTreeMap<(String, IpAddr), Instant>>,
}

impl LegacyImporter {
    /// By what these books say.
    pub fn new(context: &ControllerContext, books: AddressCaches) -> Self {
        Self { context: context.clone(), caches: books, absent_since: Mutex::default() }
    }

    /// What becomes of the record. The API server is asked: a cache may be behind.
    pub async fn decide(&self, claim: &LegacyAllocation) -> Result<ImportDecision, Error> {
        let Some((namespace, name)) = claim.pod.split_once('/') else { return Ok(ImportDecision::Undecided) };
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), namespace);
        let what = format!("pod {}", claim.pod);
        let pod = with_timeout(api.get_opt(name)).await.map_err(Error::api("get", what))?;
        let set = split_pod_name(name).and_then(|(set, ordinal)| {
            Some(self.caches.stateful_sets.get(namespace, set)?.contains(ordinal))
        });
        let verdict = decide_import(claim, pod.as_ref(), set.unwrap_or_default());
        if verdict == ImportDecision::Stale && !self.confirm_stale(claim).await? {
            return Ok(ImportDecision::Undecided);
        }
        Ok(verdict)
    }

    /// Whether a pod that is not there has no sandbox either: for a while there has been none, and every node answers, so
    /// its kubelet has ended what it should not run.
    async fn confirm_stale(&self, claim: &LegacyAllocation) -> Result<bool, Error> {
        let record = (claim.pod.clone(), claim.address);
        let since = *self
            .absent_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(record)
            .or_insert_with(Instant::now);
        if since.elapsed() < ABSENCE_GRACE_PERIOD {
            return Ok(false);
        }
        let api: Api<Node> = Api::all(self.context.client.clone());
        let nodes =
            with_timeout(api.list(&ListParams::default())).await.map_err(Error::api("list", "Nodes"))?;
        Ok(nodes.items.iter().all(is_reporting))
    }

    /// Write the entries into their granules; what another writes there meanwhile wins, and the next pass tries again.
    pub async fn import(&self, held: Vec<(LegacyAllocation, AddressAllocation)>) -> Result<(), Error> {
        let mut granules: BTreeMap<IpBlockId, BTreeMap<u8, AddressAllocation>> = BTreeMap::new();
        for (claim, entry) in held {
            let (id, offset) = IpBlockId::containing(&claim.space, claim.address);
            info!(address = %claim.address, pod = entry.pod, interface = entry.interface, "taken over");
            granules.entry(id).or_default().insert(offset, entry);
        }
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        for (id, entries) in granules {
            let name = id.object_name();
            let seen = self.caches.blocks.get("", &name);
            let mut granule = seen.as_ref().map_or_else(|| IpBlock::new(id, None), |seen| seen.block.clone());
            for (offset, entry) in entries {
                granule.entries.entry(offset).or_insert(entry);
            }
            let object = block_to_object(&granule, seen.as_ref().map(|seen| &seen.version));
            let written = match seen {
                Some(_) => with_timeout(api.replace(&name, &PostParams::default(), &object)).await,
                None => with_timeout(api.create(&PostParams::default(), &object)).await,
            };
            match written {
                Err(e) if !matches!(classify(&e), ApiFailure::Conflict | ApiFailure::NotFound) => {
                    return Err(Error::api("write", format!("AddressBlock {name}"))(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The records of a pool that Spiderpool wrote and that still count; those of living pods are taken over.
    pub async fn import_spiderpool_records(
        &self,
        pool: &SpiderIPPool,
        held: &PoolAllocations<'_>,
    ) -> Result<Vec<(IpAddr, SpiderpoolRecord)>, Error> {
        let mut standing = Vec::new();
        let mut right = Vec::new();
        // One that stands in our books is shown from there.
        let foreign = |(address, record): &(IpAddr, SpiderpoolRecord)| {
            !record.is_managed() && !held.contains_key(address)
        };
        for (address, record) in allocation_records(pool).into_iter().filter(foreign) {
            let claim = LegacyAllocation {
                space: IpSpace::default_space(),
                address,
                pod: record.pod.clone(),
                uid: Some(record.pod_uid.clone()),
                interface: self.endpoint_interface(&record, address),
                container: None,
                pool: pool.name_any(),
            };
            match self.decide(&claim).await? {
                ImportDecision::Stale => {
                    info!(%address, pod = record.pod, "a record of Spiderpool is nobody's");
                    continue;
                }
                ImportDecision::Import(entry) => right.push((claim, entry)),
                ImportDecision::Undecided => {}
            }
            standing.push((address, record));
        }
        self.import(right).await?;
        Ok(standing)
    }

    /// The interface that the pod's endpoint has the address on.
    fn endpoint_interface(&self, record: &SpiderpoolRecord, address: IpAddr) -> Option<String> {
        let (namespace, name) = record.pod.split_once('/')?;
        let endpoint = self.caches.endpoints.get(namespace, name)?;
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
fn is_reporting(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    ready || NodeFencing::from_node(node) == NodeFencing::OutOfService
}

/// What becomes of the record, given its pod, and whether a StatefulSet has one of that name.
fn decide_import(claim: &LegacyAllocation, pod: Option<&Pod>, awaited: bool) -> ImportDecision {
    let same = |pod: &&Pod| claim.uid.is_none() || claim.uid == pod.uid();
    let Some(pod) = pod.filter(same) else {
        // Spiderpool keeps the addresses of StatefulSets from one pod of a name to the next.
        return match (&claim.uid, &claim.interface) {
            (Some(uid), Some(interface)) if awaited => {
                ImportDecision::Import(block_entry(claim, uid, "", interface, String::new(), true))
            }
            _ => ImportDecision::Stale,
        };
    };
    let uid = pod.uid().unwrap_or_default();
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
        return ImportDecision::Undecided;
    };
    let Some(said) = reported_interface(pod, claim.address) else { return ImportDecision::Undecided };
    let interface = claim.interface.clone().unwrap_or(said);
    // Spiderpool does not write the sandbox down. The node looks for the address in its namespaces then.
    let container = claim.container.clone().unwrap_or_else(|| format!("before-{uid}"));
    ImportDecision::Import(block_entry(claim, &uid, node, &interface, container, is_stateful(&pod.metadata)))
}

fn block_entry(
    claim: &LegacyAllocation,
    uid: &str,
    node: &str,
    interface: &str,
    container: String,
    sticky: bool,
) -> AddressAllocation {
    AddressAllocation {
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
fn reported_interface(pod: &Pod, address: IpAddr) -> Option<String> {
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

    fn claim(uid: Option<&str>) -> LegacyAllocation {
        LegacyAllocation {
            space: IpSpace::default_space(),
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
        let ImportDecision::Import(held) = decide_import(&claim(None), Some(&pod(&has, "ReplicaSet")), false)
        else {
            panic!()
        };
        assert_eq!(
            (held.interface.as_str(), held.container.as_str(), held.node.as_str()),
            ("net1", "c", "n")
        );
        assert_eq!((held.uid.as_str(), held.sticky), ("u", false));
        let other = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.6"]}]);
        assert_eq!(
            decide_import(&claim(None), Some(&pod(&other, "ReplicaSet")), false),
            ImportDecision::Undecided
        );
        assert_eq!(decide_import(&claim(None), None, true), ImportDecision::Stale);
        let default = LegacyAllocation { address: [10, 1, 0, 1].into(), ..claim(Some("u")) };
        let ImportDecision::Import(held) = decide_import(&default, Some(&pod(&other, "ReplicaSet")), false)
        else {
            panic!()
        };
        assert_eq!((held.interface.as_str(), held.container.as_str()), ("eth0", "before-u"));
    }

    #[test]
    fn g01_a_node_that_nobody_reaches_may_still_have_what_it_had() {
        let node = |ready: &str, taints: Value| -> Node {
            let object = json!({"metadata": {"name": "n"}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            serde_json::from_value(object).unwrap()
        };
        assert!(is_reporting(&node("True", json!([]))));
        assert!(!is_reporting(&node("Unknown", json!([]))));
        let fenced = json!([{"key": super::super::node_fencing::OUT_OF_SERVICE, "effect": "NoExecute"}]);
        assert!(is_reporting(&node("Unknown", fenced)));
    }

    #[test]
    fn s_records_of_a_statefulset_wait_for_the_next_pod_of_that_name() {
        let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
        let pod = pod(&has, "StatefulSet");
        assert!(
            matches!(decide_import(&claim(Some("u")), Some(&pod), true), ImportDecision::Import(held) if held.sticky)
        );
        let known = LegacyAllocation { interface: Some("net1".into()), ..claim(Some("old")) };
        assert!(
            matches!(decide_import(&known, Some(&pod), true), ImportDecision::Import(held) if held.is_reserved())
        );
        assert_eq!(decide_import(&known, Some(&pod), false), ImportDecision::Stale);
        assert_eq!(decide_import(&claim(Some("old")), None, true), ImportDecision::Stale);
    }
}
