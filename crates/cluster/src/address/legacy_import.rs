//! Imports allocations of Whereabouts and Spiderpool while their pods are running.
//!
//! ```text
//!  Whereabouts or Spiderpool record ─┬─▶ its pod exists and reports the address ─▶ import an entry into the block;
//!                                    │                                             its node releases it like any other
//!                                    ├─▶ no such pod on any node                ─▶ the record is stale
//!                                    └─▶ anything else                          ─▶ keep the record, so that its
//!                                                                                   address is not assigned
//! ```

use super::{caches::AddressCaches, spider_pools::PoolAllocations, statefulset::split_pod_name};
use crate::{ControllerContext, Error, node_facts::NodeFencing, object_writes::unless_outdated};
use ferroband_address::{AddressAllocation, IpBlock, IpBlockId, IpSpace};
use ferroband_api::{annotation::NETWORK_STATUS, ferroband::AddressBlock, spiderpool::SpiderIPPool};
use ferroband_daemon::{
    addresses::{SpiderpoolRecord, block_to_object, is_stateful},
    api_call::with_timeout,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};
use tracing::info;

/// How long a pod must be absent before the Whereabouts or Spiderpool record of its address counts as stale.
const ABSENCE_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// An allocation recorded by Whereabouts or Spiderpool.
#[derive(Clone, Debug)]
pub struct LegacyAllocation {
    /// The IP space in which the address is unique.
    pub space: IpSpace,
    pub address: IpAddr,
    /// The pod that has the address, as `<namespace>/<name>`.
    pub pod: String,
    /// The pod's UID. Whereabouts does not record it.
    pub uid: Option<String>,
    /// Name of the interface in the pod; absent if neither Whereabouts, Spiderpool nor the pod's
    /// SpiderEndpoint records it.
    pub interface: Option<String>,
    /// ID of the pod sandbox. Spiderpool does not record it.
    pub container: Option<String>,
    /// Whereabouts range in CIDR notation, or name of the SpiderIPPool.
    pub pool: String,
}

/// What to do with a record of Whereabouts or Spiderpool.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportDecision {
    /// The pod has the address. Add this entry to the AddressBlock of the address.
    Import(AddressAllocation),
    /// No pod has the address, so the record of Whereabouts or Spiderpool can be removed.
    Stale,
    /// It is not known yet whether a pod has the address. Keep the Whereabouts or Spiderpool record and
    /// decide again later.
    Undecided,
}

/// Decides which Whereabouts and Spiderpool records are imported and which are stale, and writes the imported
/// ones into AddressBlocks.
pub struct LegacyImporter {
    context: ControllerContext,
    caches: AddressCaches,
    /// When the pod of a Whereabouts or Spiderpool record was first found to be absent. The key is the pod
    /// (`<namespace>/<name>`) and the address.
    absent_since: Mutex<BTreeMap<(String, IpAddr), Instant>>,
}

impl LegacyImporter {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        Self { context: context.clone(), caches, absent_since: Mutex::default() }
    }

    /// Decides whether a Whereabouts or Spiderpool record is imported or stale. Reads the pod from the API
    /// server, because a cache may be outdated.
    pub async fn decide(&self, allocation: &LegacyAllocation) -> Result<ImportDecision, Error> {
        let Some((namespace, name)) = allocation.pod.split_once('/') else {
            return Ok(ImportDecision::Undecided);
        };
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), namespace);
        let what = format!("pod {}", allocation.pod);
        let pod = with_timeout(api.get_opt(name)).await.map_err(Error::api("get", what))?;
        let expected = split_pod_name(name).and_then(|(set, ordinal)| {
            Some(self.caches.stateful_sets.get(namespace, set)?.contains(ordinal))
        });
        let decision = decide_import(allocation, pod.as_ref(), expected.unwrap_or_default());
        if decision == ImportDecision::Stale && !self.confirm_stale(allocation).await? {
            return Ok(ImportDecision::Undecided);
        }
        Ok(decision)
    }

    /// Whether the sandbox of an absent pod is gone as well. This holds if the pod has been absent for the
    /// grace period and every node is reporting or fenced: every kubelet has then stopped the pods that it
    /// should not run. The first call for an allocation starts its grace period.
    async fn confirm_stale(&self, allocation: &LegacyAllocation) -> Result<bool, Error> {
        let record = (allocation.pod.clone(), allocation.address);
        let since = *self.absent_since.lock().entry(record).or_insert_with(Instant::now);
        if since.elapsed() < ABSENCE_GRACE_PERIOD {
            return Ok(false);
        }
        let api: Api<Node> = Api::all(self.context.client.clone());
        let nodes =
            with_timeout(api.list(&ListParams::default())).await.map_err(Error::api("list", "Nodes"))?;
        Ok(nodes.items.iter().all(is_reporting))
    }

    /// Adds the entries to their AddressBlocks. Existing entries are kept. A block that was written
    /// concurrently is skipped, and the controller's next pass retries it.
    pub async fn import(&self, allocations: Vec<(LegacyAllocation, AddressAllocation)>) -> Result<(), Error> {
        let mut blocks: BTreeMap<IpBlockId, BTreeMap<u8, AddressAllocation>> = BTreeMap::new();
        for (allocation, entry) in allocations {
            let (id, offset) = IpBlockId::containing(&allocation.space, allocation.address);
            info!(
                address = %allocation.address,
                pod = entry.pod,
                interface = entry.interface,
                "legacy allocation imported"
            );
            blocks.entry(id).or_default().insert(offset, entry);
        }
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        for (id, entries) in blocks {
            let name = id.object_name();
            let cached = self.caches.blocks.get("", &name);
            let mut block =
                cached.as_ref().map_or_else(|| IpBlock::new(id, None), |cached| cached.block.clone());
            for (offset, entry) in entries {
                block.entries.entry(offset).or_insert(entry);
            }
            let object = block_to_object(&block, cached.as_ref().map(|cached| &cached.version));
            let written = match cached {
                Some(_) => with_timeout(api.replace(&name, &PostParams::default(), &object)).await,
                None => with_timeout(api.create(&PostParams::default(), &object)).await,
            };
            unless_outdated(written, "write", format!("AddressBlock {name}"))?;
        }
        Ok(())
    }

    /// Imports the records that Spiderpool wrote into the status of a SpiderIPPool (`recorded`) and whose pods are
    /// running. Returns all of Spiderpool's records except the stale ones.
    pub async fn import_spiderpool_records(
        &self,
        pool: &SpiderIPPool,
        recorded: Vec<(IpAddr, SpiderpoolRecord)>,
        allocations: &PoolAllocations<'_>,
    ) -> Result<Vec<(IpAddr, SpiderpoolRecord)>, Error> {
        let mut remaining = Vec::new();
        let mut to_import = Vec::new();
        // Skip addresses that have an entry in an AddressBlock, because these allocations are published from
        // the block.
        let is_foreign = |(address, record): &(IpAddr, SpiderpoolRecord)| {
            !record.is_managed() && !allocations.contains_key(address)
        };
        for (address, record) in recorded.into_iter().filter(is_foreign) {
            let allocation = LegacyAllocation {
                space: IpSpace::default_space(),
                address,
                pod: record.pod.clone(),
                uid: Some(record.pod_uid.clone()),
                interface: self.endpoint_interface(&record, address),
                container: None,
                pool: pool.name_any(),
            };
            match self.decide(&allocation).await? {
                ImportDecision::Stale => {
                    info!(%address, pod = record.pod, "stale Spiderpool allocation removed");
                    continue;
                }
                ImportDecision::Import(entry) => to_import.push((allocation, entry)),
                ImportDecision::Undecided => {}
            }
            remaining.push((address, record));
        }
        self.import(to_import).await?;
        Ok(remaining)
    }

    /// Returns the interface that has the address according to the pod's SpiderEndpoint.
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

/// Whether the node is ready, so that its kubelet reports its pods, or fenced, so that it runs none.
fn is_reporting(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    ready || NodeFencing::from_node(node) == NodeFencing::OutOfService
}

/// Decides whether `allocation` is imported or stale. `pod` is the pod that it names, if this pod exists.
/// `expected` is true if a StatefulSet has a pod of that name.
fn decide_import(allocation: &LegacyAllocation, pod: Option<&Pod>, expected: bool) -> ImportDecision {
    let same = |pod: &&Pod| allocation.uid.is_none() || allocation.uid == pod.uid();
    let Some(pod) = pod.filter(same) else {
        // Spiderpool keeps the addresses of a StatefulSet's pod for the next pod of the same name.
        return match (&allocation.uid, &allocation.interface) {
            (Some(uid), Some(interface)) if expected => {
                ImportDecision::Import(block_entry(allocation, uid, "", interface, String::new(), true))
            }
            _ => ImportDecision::Stale,
        };
    };
    let uid = pod.uid().unwrap_or_default();
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
        return ImportDecision::Undecided;
    };
    let Some(reported) = reported_interface(pod, allocation.address) else {
        return ImportDecision::Undecided;
    };
    let interface = allocation.interface.clone().unwrap_or(reported);
    // Spiderpool does not record the sandbox ID, so the AddressBlock entry gets a placeholder for it. For
    // such an entry, the node daemon searches the node's network namespaces for the address.
    let container = allocation.container.clone().unwrap_or_else(|| format!("before-{uid}"));
    ImportDecision::Import(block_entry(
        allocation,
        &uid,
        node,
        &interface,
        container,
        is_stateful(&pod.metadata),
    ))
}

fn block_entry(
    allocation: &LegacyAllocation,
    uid: &str,
    node: &str,
    interface: &str,
    container: String,
    sticky: bool,
) -> AddressAllocation {
    AddressAllocation {
        pod: allocation.pod.clone(),
        uid: uid.to_owned(),
        sticky,
        interface: interface.to_owned(),
        ordinal: 0,
        container,
        node: node.to_owned(),
        pool: allocation.pool.clone(),
    }
}

/// Returns the interface that has the address according to the pod's network-status annotation or podIPs.
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

    fn allocation(uid: Option<&str>) -> LegacyAllocation {
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

    // Case: ipam A28
    #[test]
    fn a_record_is_imported_while_its_pod_reports_the_address() {
        let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
        let ImportDecision::Import(imported) =
            decide_import(&allocation(None), Some(&pod(&has, "ReplicaSet")), false)
        else {
            panic!()
        };
        assert_eq!(
            (imported.interface.as_str(), imported.container.as_str(), imported.node.as_str()),
            ("net1", "c", "n")
        );
        assert_eq!((imported.uid.as_str(), imported.sticky), ("u", false));
        let other = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.6"]}]);
        assert_eq!(
            decide_import(&allocation(None), Some(&pod(&other, "ReplicaSet")), false),
            ImportDecision::Undecided
        );
        assert_eq!(decide_import(&allocation(None), None, true), ImportDecision::Stale);
        let default = LegacyAllocation { address: [10, 1, 0, 1].into(), ..allocation(Some("u")) };
        let ImportDecision::Import(imported) =
            decide_import(&default, Some(&pod(&other, "ReplicaSet")), false)
        else {
            panic!()
        };
        assert_eq!((imported.interface.as_str(), imported.container.as_str()), ("eth0", "before-u"));
    }

    // Case: ipam G01
    #[test]
    fn an_unreachable_node_counts_as_running_its_pods_until_it_is_fenced() {
        let node = |ready: &str, taints: Value| -> Node {
            let object = json!({"metadata": {"name": "n"}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            serde_json::from_value(object).unwrap()
        };
        assert!(is_reporting(&node("True", json!([]))));
        assert!(!is_reporting(&node("Unknown", json!([]))));
        let fenced = json!([{"key": crate::node_facts::OUT_OF_SERVICE, "effect": "NoExecute"}]);
        assert!(is_reporting(&node("Unknown", fenced)));
    }

    // Case: ipam A28
    #[test]
    fn statefulset_records_are_kept_for_the_next_pod_of_the_same_name() {
        let has = json!([{"name": "x", "interface": "net1", "ips": ["10.0.0.5"]}]);
        let pod = pod(&has, "StatefulSet");
        let decision = decide_import(&allocation(Some("u")), Some(&pod), true);
        assert!(matches!(decision, ImportDecision::Import(imported) if imported.sticky));
        let with_interface = LegacyAllocation { interface: Some("net1".into()), ..allocation(Some("old")) };
        let decision = decide_import(&with_interface, Some(&pod), true);
        assert!(matches!(decision, ImportDecision::Import(imported) if imported.is_reserved()));
        assert_eq!(decide_import(&with_interface, Some(&pod), false), ImportDecision::Stale);
        assert_eq!(decide_import(&allocation(Some("old")), None, true), ImportDecision::Stale);
    }
}
