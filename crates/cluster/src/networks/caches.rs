//! API objects that the network controllers and the webhook watch and cache.

use crate::Error;
use ferroband_api::{
    cncf::NetworkAttachmentDefinition, spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork,
};
use ferroband_daemon::{SharedCache, start_reflector, tasks::TaskSet};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, runtime::watcher};

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
        let config = watcher::Config::default;
        let all = || client.clone();
        Self {
            definitions: start_reflector(
                tasks,
                "NetworkAttachmentDefinitions",
                Api::all(all()),
                config(),
                Some,
            ),
            spider_configs: start_reflector(tasks, "SpiderMultusConfigs", Api::all(all()), config(), Some),
            ib_networks: start_reflector(tasks, "SriovIBNetworks", Api::all(all()), config(), Some),
            namespace_groups: start_reflector(
                tasks,
                "Namespaces",
                Api::all(all()),
                config(),
                |namespace: Namespace| {
                    let annotations = namespace.annotations();
                    let group = GROUP_ANNOTATIONS.into_iter().find_map(|key| {
                        Some((key, annotations.get(key).filter(|value| !value.is_empty())?.clone()))
                    });
                    Some(group)
                },
            ),
        }
    }
}
