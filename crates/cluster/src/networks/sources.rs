//! What networks are made of, as the API server has it.

use crate::{Error, Watched};
use ferroband_api::{
    cncf::NetworkAttachmentDefinition, spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork,
};
use ferroband_daemon::tasks::Tasks;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, runtime::watcher};

use super::GROUPS;

/// The caches. Every replica has them: its webhook answers from them.
#[derive(Clone)]
pub struct Sources {
    /// The definitions.
    pub definitions: Watched<NetworkAttachmentDefinition>,
    /// Networks in Spiderpool's form.
    pub configs: Watched<SpiderMultusConfig>,
    /// Networks in the SR-IOV operator's form.
    pub ib_networks: Watched<SriovIBNetwork>,
    /// The namespaces, each with the group of networks that its pods get: key and value of the annotation.
    pub namespaces: Watched<Option<(&'static str, String)>>,
}

impl Sources {
    /// Watch them.
    pub fn start(client: &Client, tasks: &mut Tasks<Error>) -> Self {
        let config = watcher::Config::default;
        let all = || client.clone();
        Self {
            definitions: Watched::start(tasks, "networks", Api::all(all()), config(), Some),
            configs: Watched::start(tasks, "SpiderMultusConfigs", Api::all(all()), config(), Some),
            ib_networks: Watched::start(tasks, "SriovIBNetworks", Api::all(all()), config(), Some),
            namespaces: Watched::start(
                tasks,
                "namespaces",
                Api::all(all()),
                config(),
                |namespace: Namespace| {
                    let annotations = namespace.annotations();
                    let group = GROUPS.into_iter().find_map(|key| {
                        Some((key, annotations.get(key).filter(|value| !value.is_empty())?.clone()))
                    });
                    Some(group)
                },
            ),
        }
    }
}
