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
    Reflectors, SharedCache,
    addresses::{UNMANAGED_SELECTOR, block_from_object},
    tasks::TaskSet,
};
use kube::{Api, runtime::watcher};

/// An AddressBlock as last received from the API server. Writes to it are conditional on `version`.
#[derive(Clone, Debug)]
pub struct CachedBlock {
    pub block: IpBlock,
    pub version: ResourceVersion,
    /// UID of the AddressBlock; empty if the API server sent none.
    pub uid: String,
}

/// Caches shared by all address controllers. Other controllers use `nodes`, too.
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
        let mut watch = Reflectors { client: &context.client, tasks };
        let foreign = watcher::Config::default().labels(UNMANAGED_SELECTOR);
        Self {
            blocks: watch.all("AddressBlocks", cached_block),
            nodes: nodes.clone(),
            stateful_sets: watch.all("StatefulSets", |set| Some(StatefulSetOrdinals::from_set(&set))),
            ip_pools: watch.all("SpiderIPPools", Some),
            endpoints: watch.all("SpiderEndpoints", Some),
            whereabouts_pools: watch.start("IPPools", Api::all(context.client.clone()), foreign, Some),
        }
    }
}

fn cached_block(object: AddressBlock) -> Option<CachedBlock> {
    let (block, version) = block_from_object(&object).ok()?;
    Some(CachedBlock { block, version, uid: object.metadata.uid.unwrap_or_default() })
}
