//! API objects that the partition controller watches and caches.

use crate::{ControllerContext, Error};
use ferroband_api::ferroband::{NodePartitions, Partition, SubnetManagerHost};
use ferroband_daemon::{SharedCache, start_reflector, tasks::TaskSet};
use ferroband_partition::PartitionSettings;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::{Api, runtime::watcher};
use std::collections::BTreeMap;

/// Name of ib-kubernetes' Secret with the UFM credentials.
pub const UFM_SECRET: &str = "ib-kubernetes-ufm-secret";
/// Label of nodes that run opensm. Its value is the port that opensm uses.
pub const SUBNET_MANAGER_LABEL: &str = "ferroband.io/subnet-manager";
/// Key of the taint with which an administrator confirms that a node is off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The facts about a node that the partition controller needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionNodeFacts {
    /// Whether the node has the out-of-service taint, so that none of its pods is running.
    pub out_of_service: bool,
    /// Port on which the node should run opensm; absent if it should not run opensm.
    pub opensm_port: Option<String>,
}

#[derive(Clone)]
pub struct PartitionCaches {
    pub nodes: SharedCache<PartitionNodeFacts>,
    pub node_partitions: SharedCache<NodePartitions>,
    pub partitions: SharedCache<Partition>,
    pub hosts: SharedCache<SubnetManagerHost>,
    pub secrets: SharedCache<BTreeMap<String, String>>,
    pub config_maps: SharedCache<BTreeMap<String, String>>,
}

impl PartitionCaches {
    /// Starts one watch for each cache. The watches run until `tasks` ends.
    pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        let client = &context.client;
        let all = watcher::Config::default();
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            nodes: start_reflector(
                tasks,
                "Nodes for partitions",
                Api::all(client.clone()),
                all.clone(),
                node_facts,
            ),
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

    /// Whether all caches have received the objects that existed when their watches started.
    pub fn is_synced(&self) -> bool {
        self.nodes.is_synced()
            && self.node_partitions.is_synced()
            && self.partitions.is_synced()
            && self.secrets.is_synced()
            && self.config_maps.is_synced()
            && self.hosts.is_synced()
    }
}

fn node_facts(node: Node) -> Option<PartitionNodeFacts> {
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    Some(PartitionNodeFacts {
        out_of_service: taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
        opensm_port: node
            .metadata
            .labels
            .and_then(|mut labels| labels.remove(SUBNET_MANAGER_LABEL))
            .filter(|port| port != "false"),
    })
}

fn secret_strings(secret: Secret) -> Option<BTreeMap<String, String>> {
    let text =
        |(name, value): (String, k8s_openapi::ByteString)| Some((name, String::from_utf8(value.0).ok()?));
    Some(secret.data.unwrap_or_default().into_iter().filter_map(text).collect())
}
