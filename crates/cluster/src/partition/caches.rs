//! API objects that the partition controller watches and caches.

use crate::{ControllerContext, Error, node_facts::NodeFacts};
use ferroband_api::ferroband::{NodePartitions, Partition, SubnetManagerHost};
use ferroband_daemon::{SharedCache, start_reflector, tasks::TaskSet};
use ferroband_partition::PartitionSettings;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, runtime::watcher};
use std::collections::BTreeMap;

/// Name of ib-kubernetes' Secret with the UFM credentials.
pub const UFM_SECRET: &str = "ib-kubernetes-ufm-secret";

#[derive(Clone)]
pub struct PartitionCaches {
    pub nodes: SharedCache<NodeFacts>,
    pub node_partitions: SharedCache<NodePartitions>,
    pub partitions: SharedCache<Partition>,
    pub hosts: SharedCache<SubnetManagerHost>,
    pub secrets: SharedCache<BTreeMap<String, String>>,
    pub config_maps: SharedCache<BTreeMap<String, String>>,
}

impl PartitionCaches {
    /// Starts one watch for each cache except `nodes`. The watches run until `tasks` ends.
    pub fn start(
        context: &ControllerContext,
        nodes: &SharedCache<NodeFacts>,
        tasks: &mut TaskSet<Error>,
    ) -> Self {
        let client = &context.client;
        let all = watcher::Config::default();
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            nodes: nodes.clone(),
            node_partitions: start_reflector(
                tasks,
                "NodePartitions",
                Api::all(client.clone()),
                all.clone(),
                Some,
            ),
            partitions: start_reflector(tasks, "Partitions", Api::all(client.clone()), all.clone(), Some),
            hosts: start_reflector(tasks, "SubnetManagerHosts", Api::all(client.clone()), all, Some),
            secrets: start_reflector(
                tasks,
                "UFM Secret",
                Api::namespaced(client.clone(), PartitionSettings::NAMESPACE),
                named(UFM_SECRET),
                secret_strings,
            ),
            config_maps: start_reflector(
                tasks,
                "ib-kubernetes ConfigMap",
                Api::namespaced(client.clone(), PartitionSettings::NAMESPACE),
                named(PartitionSettings::CONFIG_MAP),
                |map: ConfigMap| Some(map.data.unwrap_or_default()),
            ),
        }
    }
}

fn secret_strings(secret: Secret) -> Option<BTreeMap<String, String>> {
    let text =
        |(name, value): (String, k8s_openapi::ByteString)| Some((name, String::from_utf8(value.0).ok()?));
    Some(secret.data.unwrap_or_default().into_iter().filter_map(text).collect())
}
