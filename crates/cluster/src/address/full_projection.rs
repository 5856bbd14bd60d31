//! Writes all assigned addresses into the objects of Whereabouts and Spiderpool, so that these systems can take over
//! again when Ferroband is removed. The cluster daemon must be stopped.

use super::{
    foreign_records::is_placeholder,
    pool_status::{PoolAllocations, status_records},
    spider_endpoints,
    whereabouts_objects::{ProjectedObjects, project},
    whereabouts_projection::{list_published, write_pool, write_reservation},
};
use crate::{Error, object_writes::unless_outdated};
use ferroband_address::{IpBlock, IpSpace};
use ferroband_api::{
    ferroband::AddressBlock,
    spiderpool::{SpiderEndpoint, SpiderIPPool},
};
use ferroband_daemon::{
    ApiKind,
    addresses::{allocation_records, block_from_object},
    api_call::{ApiFailure, classify, with_timeout},
    error_chain,
};
use futures::{StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Largest content of one object. etcd refuses objects of more than 1.5 MB, and an object also has metadata.
const MAX_OBJECT_BYTES: usize = 1_000_000;
const MAX_CONCURRENT_WRITES: usize = 8;

/// The addresses of running pods, as Whereabouts and Spiderpool record them.
pub struct FullProjection {
    client: Client,
    whereabouts: ProjectedObjects,
    /// Name and `status.allocatedIPs` of SpiderIPPools, and the number of addresses in it.
    pools: Vec<(String, Option<String>, usize)>,
    /// The pools themselves, and the blocks, from which SpiderEndpoints are written.
    objects: BTreeMap<String, Arc<SpiderIPPool>>,
    blocks: Vec<IpBlock>,
}

impl FullProjection {
    /// Reads the blocks and pools. Only entries of pods in `pods` (by UID) are recorded: the others are gone.
    pub async fn read(client: &Client, pods: &BTreeSet<String>) -> Result<Self, Error> {
        let listed = list_or_none(Api::<AddressBlock>::all(client.clone()), "AddressBlocks").await?;
        let mut blocks: Vec<IpBlock> =
            listed.iter().filter_map(|object| Some(block_from_object(object).ok()?.0)).collect();
        for block in &mut blocks {
            block.entries.retain(|_, entry| pods.contains(&entry.uid) && !is_placeholder(entry));
        }
        let objects = list_or_none(Api::<SpiderIPPool>::all(client.clone()), "SpiderIPPools").await?;
        let pools = objects.iter().map(|pool| pool_records(pool, &blocks)).collect();
        let whereabouts = project(blocks.iter(), usize::MAX);
        let objects = objects.into_iter().map(|pool| (pool.name_any(), Arc::new(pool))).collect();
        Ok(Self { client: client.clone(), whereabouts, pools, objects, blocks })
    }

    /// Returns the objects that cannot hold all their addresses, with the reason.
    pub fn too_large(&self) -> Vec<String> {
        let pools = self.pools.iter().map(|(name, records, count)| {
            (format!("SpiderIPPool {name}"), records.as_ref().map_or(0, String::len), *count)
        });
        let ip_pools = self.whereabouts.pools.iter().map(|(name, pool)| {
            let bytes = serde_json::to_string(&pool.spec).map_or(usize::MAX, |text| text.len());
            (format!("IPPool {name}"), bytes, pool.spec.allocations.len())
        });
        let large = pools.chain(ip_pools).filter(|(_, bytes, _)| *bytes > MAX_OBJECT_BYTES);
        large
            .map(|(name, _, count)| format!("{name}: {count} addresses exceed the size of an object"))
            .collect()
    }

    /// Writes all objects. Returns the number of written objects, and the failures, each with the object.
    pub async fn write(&self) -> (usize, Vec<String>) {
        let (mut written, mut failed) = (0, Vec::new());
        let count = |result: Result<(), Error>, written: &mut usize, failed: &mut Vec<String>| match result {
            Ok(()) => *written += 1,
            Err(e) => failed.push(error_chain(&e)),
        };
        let api: Api<SpiderIPPool> = Api::all(self.client.clone());
        for (name, records, number) in &self.pools {
            let patch = json!({"status": {"allocatedIPs": records, "allocatedIPCount": number}});
            let patched =
                with_timeout(api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
            let what = format!("SpiderIPPool {name}");
            count(unless_outdated(patched, "patch the status of", what).map(drop), &mut written, &mut failed);
        }
        if !self.pools.is_empty() {
            failed.extend(self.write_endpoints().await);
        }
        let published = match list_published(&self.client).await {
            Ok(published) => published,
            // The kinds do not exist, so there is nothing to write for.
            Err(Error::Api { source, .. }) if classify(&source) == ApiFailure::NotFound => {
                return (written, failed);
            }
            Err(e) => {
                failed.push(error_chain(&e));
                return (written, failed);
            }
        };
        let (before, after) = (&published, &self.whereabouts);
        for name in before.pools.keys().chain(after.pools.keys()).collect::<BTreeSet<_>>() {
            let known = before.pools.contains_key(name);
            if before.pools.get(name) != after.pools.get(name) {
                count(
                    write_pool(&self.client, name, after.pools.get(name), known).await.map(drop),
                    &mut written,
                    &mut failed,
                );
            }
        }
        let names = before.reservations.keys().chain(after.reservations.keys()).collect::<BTreeSet<_>>();
        let changed =
            names.into_iter().filter(|name| before.reservations.get(*name) != after.reservations.get(*name));
        let writes: Vec<_> = changed
            .map(|name| {
                let known = before.reservations.contains_key(name);
                write_reservation(&self.client, name, after.reservations.get(name), known)
            })
            .collect();
        let results: Vec<_> = stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES).collect().await;
        results.into_iter().for_each(|result| count(result.map(drop), &mut written, &mut failed));
        (written, failed)
    }
}

impl FullProjection {
    /// Writes the SpiderEndpoints of all pods. Returns the failures.
    async fn write_endpoints(&self) -> Vec<String> {
        let api: Api<SpiderEndpoint> = Api::all(self.client.clone());
        let listed = match list_or_none(api, "SpiderEndpoints").await {
            Ok(listed) => listed,
            Err(e) => return vec![error_chain(&e)],
        };
        let pod = |object: &SpiderEndpoint| {
            format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
        };
        let present = listed.into_iter().map(|object| (pod(&object), Arc::new(object))).collect();
        let mut allocations: HashMap<&str, PoolAllocations<'_>> = HashMap::new();
        for block in self.blocks.iter().filter(|block| block.space == IpSpace::default_space()) {
            for (offset, entry) in &block.entries {
                allocations.entry(&entry.pool).or_default().insert(block.address(*offset), entry);
            }
        }
        let failed = spider_endpoints::sync(&self.client, &present, &allocations, &self.objects).await;
        failed.iter().map(|error| error_chain(error)).collect()
    }
}

/// Lists all objects. A kind that is not installed has none.
async fn list_or_none<K: ApiKind>(api: Api<K>, what: &str) -> Result<Vec<K>, Error> {
    match with_timeout(api.list(&ListParams::default())).await {
        Ok(list) => Ok(list.items),
        Err(e) if classify(&e) == ApiFailure::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::api("list", what)(e)),
    }
}

/// Returns name, records and number of addresses of a pool. Records of Spiderpool stay, unless its pod has an entry.
fn pool_records(pool: &SpiderIPPool, blocks: &[IpBlock]) -> (String, Option<String>, usize) {
    let name = pool.name_any();
    let in_default = blocks.iter().filter(|block| block.space == IpSpace::default_space());
    let entries = in_default
        .flat_map(|block| block.entries.iter().map(move |(offset, entry)| (block.address(*offset), entry)));
    let own: PoolAllocations<'_> = entries.filter(|(_, entry)| entry.pool == name).collect();
    let foreign = match allocation_records(pool) {
        Ok(records) => records,
        // The records stay as they are, for an administrator to correct.
        Err(_) => {
            let status = pool.status.clone().unwrap_or_default();
            return (name, status.allocated_ips, own.len());
        }
    };
    let remaining = foreign.into_iter().filter(|(address, record)| {
        !record.is_managed() && own.get(address).is_none_or(|entry| entry.pod != record.pod)
    });
    let records = status_records(&own, remaining.collect());
    let text = serde_json::to_string(&records).ok().filter(|_| !records.is_empty());
    (name, text, records.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_testbed::fake_api::FakeApi;
    use serde_json::Value;

    const BLOCKS: &str = "/apis/ferroband.io/v1alpha1/addressblocks";
    const POOLS: &str = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools";
    const IP_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools";
    const RESERVATIONS: &str =
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/overlappingrangeipreservations";

    fn block(second: usize, third: usize, pool: &str) -> Value {
        let entry = |uid: String| {
            json!({"pod": "ns/a-pod-with-a-name", "uid": uid, "interface": "net1",
            "container": "c".repeat(64), "node": "n", "pool": pool})
        };
        let entries: serde_json::Map<String, Value> =
            (0..16).map(|offset| (offset.to_string(), entry("running".into()))).collect();
        let first = format!("10.{second}.{}.{}", third / 16, third % 16 * 16);
        json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock",
            "metadata": {"name": format!("default-{first}")},
            "spec": {"space": "default", "first": first, "entries": entries}})
    }

    fn server(blocks: Vec<Value>) -> FakeApi {
        let api = FakeApi::default();
        let list = |items: Value| json!({"metadata": {}, "items": items});
        api.insert_object(BLOCKS, list(json!(blocks)));
        let pool = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "p"}, "spec": {"subnet": "10.1.0.0/16", "ips": ["10.1.0.0-10.1.255.255"]},
            "status": {"allocatedIPCount": 16}});
        api.insert_object(&format!("{POOLS}/p"), pool.clone());
        api.insert_object(POOLS, list(json!([pool])));
        api.insert_object("/apis/spiderpool.spidernet.io/v2beta1/spiderendpoints", list(json!([])));
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a-pod-with-a-name", "namespace": "ns", "uid": "running"}});
        api.insert_object("/api/v1/namespaces/ns/pods/a-pod-with-a-name", pod);
        api.insert_object(IP_POOLS, list(json!([])));
        // The fake API server answers a patch with the stored object.
        let stored = json!({"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": "10.2.0.0-24", "labels": {"app.kubernetes.io/managed-by": "ferroband"}},
            "spec": {"range": "10.2.0.0/24", "allocations": {}}});
        api.insert_object(&format!("{IP_POOLS}/10.2.0.0-24"), stored);
        api.insert_object(RESERVATIONS, list(json!([])));
        api
    }

    #[tokio::test]
    async fn all_addresses_of_running_pods_are_written() {
        let api = server(vec![block(1, 0, "p"), block(2, 0, "10.2.0.0/24")]);
        let none = FullProjection::read(&api.client(), &BTreeSet::new()).await.unwrap();
        assert_eq!((none.pools[0].2, none.whereabouts.reservations.len()), (0, 0), "no pod runs");
        let pods = BTreeSet::from(["running".to_owned()]);
        let full = FullProjection::read(&api.client(), &pods).await.unwrap();
        assert_eq!(full.too_large(), Vec::<String>::new());
        let (written, failed) = full.write().await;
        assert_eq!((written, failed), (1 + 1 + 16, Vec::new()));
        let status = api.last_body("PATCH", &format!("{POOLS}/p/status"))["status"].clone();
        assert!(status["allocatedIPs"].as_str().unwrap().contains("10.1.0.15"), "{status}");
        assert_eq!(status["allocatedIPCount"], 16);
        let endpoint =
            "/apis/spiderpool.spidernet.io/v2beta1/namespaces/ns/spiderendpoints/a-pod-with-a-name";
        let endpoint = api.get_object(endpoint).unwrap();
        assert_eq!(endpoint["status"]["current"]["ips"][0]["ipv4Pool"], "p", "{endpoint}");
        let pool = api.last_body("PATCH", &format!("{IP_POOLS}/10.2.0.0-24"));
        assert_eq!(pool["spec"]["allocations"]["15"]["podref"], "ns/a-pod-with-a-name");
    }

    #[tokio::test]
    async fn a_pool_that_is_too_large_is_named() {
        let api = server((0..700).map(|number| block(1, number, "p")).collect());
        let pods = BTreeSet::from(["running".to_owned()]);
        let full = FullProjection::read(&api.client(), &pods).await.unwrap();
        assert_eq!(full.too_large(), ["SpiderIPPool p: 11200 addresses exceed the size of an object"]);
    }
}
