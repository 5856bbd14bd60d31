//! The caches that this work needs.

use super::{fence::Fence, stateful::Ordinals};
use crate::{Context, Error, Watched};
use ferroband_address::{Granule, Version};
use ferroband_api::{
    ferroband::AddressGranule,
    spiderpool::{SpiderEndpoint, SpiderIPPool},
    whereabouts::IPPool,
};
use ferroband_daemon::{
    addresses::{FOREIGN, granule_of},
    tasks::Tasks,
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Node};
use kube::{Api, runtime::watcher};

/// A granule and the state it was seen in.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its contents.
    pub granule: Granule,
    /// Its version.
    pub version: Version,
    /// Its object's UID.
    pub uid: String,
}

/// The caches.
#[derive(Clone)]
pub struct Books {
    /// All granules.
    pub granules: Watched<Seen>,
    /// All nodes.
    pub nodes: Watched<Fence>,
    /// All StatefulSets.
    pub sets: Watched<Ordinals>,
    /// All pools.
    pub pools: Watched<SpiderIPPool>,
    /// All endpoints.
    pub endpoints: Watched<SpiderEndpoint>,
    /// The records that Whereabouts itself wrote.
    pub ranges: Watched<IPPool>,
}

impl Books {
    /// Watch everything.
    pub fn watch(context: &Context, tasks: &mut Tasks<Error>) -> Self {
        let client = || context.client.clone();
        let config = watcher::Config::default;
        Self {
            granules: Watched::start(tasks, "address granules", Api::all(client()), config(), seen),
            nodes: Watched::start(tasks, "nodes", Api::all(client()), config(), |node: Node| {
                Some(Fence::of(&node))
            }),
            sets: Watched::start(tasks, "StatefulSets", Api::all(client()), config(), |set: StatefulSet| {
                Some(Ordinals::of(&set))
            }),
            pools: Watched::start(tasks, "SpiderIPPools", Api::all(client()), config(), Some),
            endpoints: Watched::start(tasks, "SpiderEndpoints", Api::all(client()), config(), Some),
            ranges: Watched::start(tasks, "IPPools", Api::all(client()), config().labels(FOREIGN), Some),
        }
    }
}

fn seen(object: AddressGranule) -> Option<Seen> {
    let (granule, version) = granule_of(&object).ok()?;
    Some(Seen { granule, version, uid: object.metadata.uid.unwrap_or_default() })
}
