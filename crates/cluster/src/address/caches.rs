//! API objects that the address controllers watch and cache.

use super::statefulset::StatefulSetOrdinals;
use crate::{ControllerContext, Error, node_facts::NodeFacts};
use ferroband_address::{IpBlock, ResourceVersion};
use ferroband_api::{
    ferroband::AddressBlock,
    spiderpool::{SpiderEndpoint, SpiderIPPool},
    whereabouts::IPPool,
};
use ferroband_daemon::{
    SharedCache,
    addresses::{UNMANAGED_SELECTOR, block_from_object},
    start_reflector,
    tasks::TaskSet,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{Api, runtime::watcher};

/// An AddressBlock as last received from the API server. Writes to it are conditional on `version`.
#[derive(Clone, Debug)]
pub struct CachedBlock {
    pub block: IpBlock,
    pub version: ResourceVersion,
    /// UID of the AddressBlock; empty if the API server sent none.
    pub uid: String,
}

/// Caches shared by all address controllers. `nodes` is shared with other controllers; each of the others is filled by its own watch.
#[derive(Clone)]
pub struct AddressCaches {
    pub blocks: SharedCache<CachedBlock>,
    pub nodes: SharedCache<NodeFacts>,
    pub stateful_sets: SharedCache<StatefulSetOrdinals>,
    pub ip_pools: SharedCache<SpiderIPPool>,
    pub endpoints: SharedCache<SpiderEndpoint>,
    /// IPPools that Whereabouts itself wrote; those that Ferroband publishes are not cached.
    pub whereabouts_pools: SharedCache<IPPool>,
}

impl AddressCaches {
    /// Starts one watch for each cache except `nodes`. The watches run until `tasks` ends.
    pub fn watch(
        context: &ControllerContext,
        nodes: &SharedCache<NodeFacts>,
        tasks: &mut TaskSet<Error>,
    ) -> Self {
        let client = || context.client.clone();
        let config = watcher::Config::default;
        Self {
            blocks: start_reflector(tasks, "AddressBlocks", Api::all(client()), config(), cached_block),
            nodes: nodes.clone(),
            stateful_sets: start_reflector(
                tasks,
                "StatefulSets",
                Api::all(client()),
                config(),
                |set: StatefulSet| Some(StatefulSetOrdinals::from_set(&set)),
            ),
            ip_pools: start_reflector(tasks, "SpiderIPPools", Api::all(client()), config(), Some),
            endpoints: start_reflector(tasks, "SpiderEndpoints", Api::all(client()), config(), Some),
            whereabouts_pools: start_reflector(
                tasks,
                "IPPools",
                Api::all(client()),
                config().labels(UNMANAGED_SELECTOR),
                Some,
            ),
        }
    }
}

fn cached_block(object: AddressBlock) -> Option<CachedBlock> {
    let (block, version) = block_from_object(&object).ok()?;
    Some(CachedBlock { block, version, uid: object.metadata.uid.unwrap_or_default() })
}
