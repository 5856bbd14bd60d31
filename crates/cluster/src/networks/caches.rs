//! API objects that the network controllers and the webhook watch and cache.

use crate::Error;
use ferroband_api::{
    cncf::NetworkAttachmentDefinition, spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork,
};
use ferroband_daemon::{Reflectors, SharedCache, tasks::TaskSet};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt};

use super::GROUP_ANNOTATIONS;

/// Caches of networks and namespaces. Every replica fills them, not only the leader, because its webhook answers from
/// them.
#[derive(Clone, Default)]
pub struct NetworkCaches {
    pub definitions: SharedCache<NetworkAttachmentDefinition>,
    pub spider_configs: SharedCache<SpiderMultusConfig>,
    pub ib_networks: SharedCache<SriovIBNetwork>,
    /// All namespaces. The value is the annotation (key and value) that assigns a network group to the pods of the
    /// namespace, if it has one.
    pub namespace_groups: SharedCache<Option<(&'static str, String)>>,
}

impl NetworkCaches {
    /// Starts one watch for each cache. The watches run until `tasks` ends.
    pub fn start(client: &Client, tasks: &mut TaskSet<Error>) -> Self {
        let mut watch = Reflectors { client, tasks };
        Self {
            definitions: watch.all("NetworkAttachmentDefinitions", Some),
            spider_configs: watch.all("SpiderMultusConfigs", Some),
            ib_networks: watch.all("SriovIBNetworks", Some),
            namespace_groups: watch.all("Namespaces", |namespace: Namespace| {
                let annotations = namespace.annotations();
                let group = GROUP_ANNOTATIONS.into_iter().find_map(|key| {
                    Some((key, annotations.get(key).filter(|value| !value.is_empty())?.clone()))
                });
                Some(group)
            }),
        }
    }
}
