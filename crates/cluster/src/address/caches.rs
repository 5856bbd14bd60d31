//! API objects that the address controllers watch and cache.

use super::{node_fencing::NodeFencing, statefulset::StatefulSetOrdinals};
use crate::{ControllerContext, Error};
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
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Node};
use kube::{Api, runtime::watcher};

/// An AddressBlock as last received from the API server. Writes to it are conditional on `version`.
#[derive(Clone, Debug)]
pub struct CachedBlock {
    pub block: IpBlock,
    pub version: ResourceVersion,
    /// UID of the AddressBlock; empty if the API server sent none.
    pub uid: String,
}

/// Caches shared by all address controllers. Each one is filled by its own watch.
#[derive(Clone)]
pub struct AddressCaches {
    pub blocks: SharedCache<CachedBlock>,
    pub nodes: SharedCache<NodeFencing>,
    pub stateful_sets: SharedCache<StatefulSetOrdinals>,
    pub ip_pools: SharedCache<SpiderIPPool>,
    pub endpoints: SharedCache<SpiderEndpoint>,
    /// IPPools that Whereabouts itself wrote; those that Ferroband publishes are not cached.
    pub whereabouts_pools: SharedCache<IPPool>,
}

impl AddressCaches {
    /// Starts one watch for each cache. The watches run until `tasks` ends.
    pub fn watch(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        let client = || context.client.clone();
        let config = watcher::Config::default;
        Self {
            blocks: start_reflector(tasks, "AddressBlocks", Api::all(client()), config(), cached_block),
            nodes: start_reflector(tasks, "Nodes", Api::all(client()), config(), |node: Node| {
                Some(NodeFencing::from_node(&node))
            }),
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
