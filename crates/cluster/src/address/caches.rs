//! API objects that the address controllers watch and cache.

use super::{foreign_kinds::ForeignKind, foreign_records::ForeignIpPool, statefulset::StatefulSetOrdinals};
use crate::{ControllerContext, Error, node_facts::NodeFacts};
use ferroband_address::{IpBlock, ResourceVersion};
use ferroband_api::{
    ferroband::{
        AddressBlock, AddressIndex, AddressIndexSpec, AddressState, SpiderPoolCopy, SpiderPoolCopySpec,
    },
    spiderpool::{SpiderEndpoint, SpiderIPPool},
};
use ferroband_daemon::{
    Reflectors, SharedCache,
    addresses::{UNMANAGED_SELECTOR, block_from_object},
    decoded,
    tasks::TaskSet,
};
use kube::{Api, core::ObjectMeta, runtime::watcher};

/// An AddressBlock as last received from the API server. Writes to it are conditional on `version`.
#[derive(Clone, Debug, PartialEq)]
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
    pub ip_pools: ForeignKind<SpiderIPPool>,
    pub endpoints: SharedCache<SpiderEndpoint>,
    /// IPPools that Whereabouts itself wrote; those that Ferroband publishes are not cached.
    pub whereabouts_pools: ForeignKind<ForeignIpPool>,
    pub pool_copies: SharedCache<SpiderPoolCopySpec>,
    pub indexes: SharedCache<AddressIndexSpec>,
    pub address_states: SharedCache<AddressState>,
}

impl AddressCaches {
    /// Starts one watch for each cache except `nodes`. The watches run until `tasks` ends.
    pub fn watch(
        context: &ControllerContext,
        nodes: &SharedCache<NodeFacts>,
        tasks: &mut TaskSet<Error>,
    ) -> Self {
        let (ip_pools, whereabouts_pools) = (ForeignKind::default(), ForeignKind::default());
        let (what, api, all) =
            ("SpiderIPPools", Api::all(context.client.clone()), watcher::Config::default());
        let without_fields = |mut pool: SpiderIPPool| {
            // managedFields are often half of an object, and no reader needs them.
            pool.metadata.managed_fields = None;
            Some(pool)
        };
        tasks.start_endless(what, ip_pools.clone().watch(what, api, all, decoded(what, without_fields)));
        let (what, api) = ("IPPools of Whereabouts", Api::all(context.client.clone()));
        let foreign = watcher::Config::default().labels(UNMANAGED_SELECTOR);
        let reduce = |pool| Some(ForeignIpPool::from_object(pool));
        tasks.start_endless(what, whereabouts_pools.clone().watch(what, api, foreign, reduce));
        let mut watch = Reflectors { client: &context.client, tasks };
        Self {
            blocks: watch.all("AddressBlocks", cached_block),
            nodes: nodes.clone(),
            stateful_sets: watch.all("StatefulSets", |set| Some(StatefulSetOrdinals::from_set(&set))),
            ip_pools,
            endpoints: watch.all("SpiderEndpoints", Some),
            whereabouts_pools,
            pool_copies: watch.all("SpiderPoolCopies", |copy: SpiderPoolCopy| Some(copy.spec)),
            indexes: watch.all("AddressIndexes", |index: AddressIndex| Some(index.spec)),
            address_states: watch.all("AddressStates", |state: AddressState| {
                Some(AddressState { metadata: ObjectMeta::default(), ..state })
            }),
        }
    }

    /// Empty caches that count as synced.
    #[cfg(test)]
    pub fn for_test() -> Self {
        use kube::runtime::watcher::Event;
        let caches = Self {
            blocks: SharedCache::default(),
            nodes: SharedCache::default(),
            stateful_sets: SharedCache::default(),
            ip_pools: ForeignKind::default(),
            endpoints: SharedCache::default(),
            whereabouts_pools: ForeignKind::default(),
            pool_copies: SharedCache::default(),
            indexes: SharedCache::default(),
            address_states: SharedCache::default(),
        };
        caches.blocks.apply(Event::InitDone);
        caches.endpoints.apply(Event::InitDone);
        caches
    }
}

fn cached_block(object: AddressBlock) -> Option<CachedBlock> {
    let (block, version) = block_from_object(&object).ok()?;
    Some(CachedBlock { block, version, uid: object.metadata.uid.unwrap_or_default() })
}
