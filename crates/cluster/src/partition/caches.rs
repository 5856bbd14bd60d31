//! API objects that the partition controller watches and caches.

use crate::{ControllerContext, Error, Reflector};
use ferroband_api::ferroband::{NodePartitions, Partition, SubnetManagerHost};
use ferroband_daemon::tasks::TaskSet;
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
    pub nodes: Reflector<PartitionNodeFacts>,
    pub node_partitions: Reflector<NodePartitions>,
    pub partitions: Reflector<Partition>,
    pub hosts: Reflector<SubnetManagerHost>,
    pub secrets: Reflector<BTreeMap<String, String>>,
    pub config_maps: Reflector<BTreeMap<String, String>>,
}

impl PartitionCaches {
    /// Starts one watch for each cache. The watches run until `tasks` ends.
    pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        let client = &context.client;
        let all = watcher::Config::default();
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            nodes: Reflector::start(
                tasks,
                "Nodes for partitions",
                Api::all(client.clone()),
                all.clone(),
                node_facts,
            ),
            node_partitions: Reflector::start(
                tasks,
                "NodePartitions",
                Api::all(client.clone()),
                all.clone(),
                Some,
            ),
            partitions: Reflector::start(tasks, "Partitions", Api::all(client.clone()), all.clone(), Some),
            hosts: Reflector::start(tasks, "SubnetManagerHosts", Api::all(client.clone()), all, Some),
            secrets: Reflector::start(
                tasks,
                "UFM Secret",
                Api::namespaced(client.clone(), PartitionSettings::NAMESPACE),
                named(UFM_SECRET),
                secret_strings,
            ),
            config_maps: Reflector::start(
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
