//! What the leader watches for partitions.

use crate::{ControllerContext, Error, Reflector};
use ferroband_api::ferroband::{NodePartitions, Partition, SubnetManagerHost};
use ferroband_daemon::tasks::TaskSet;
use ferroband_partition::PartitionSettings;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::{Api, runtime::watcher};
use std::collections::BTreeMap;

/// The Secret of ib-kubernetes.
pub const UFM_SECRET: &str = "ib-kubernetes-ufm-secret";
/// On a node that shall run opensm; its value says on which port.
pub const SUBNET_MANAGER_LABEL: &str = "ferroband.io/subnet-manager";
/// On a node that is known to be off: its pods run nowhere (Kubernetes' own taint).
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What counts of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionNodeFacts {
    /// Its pods run nowhere any more.
    pub out_of_service: bool,
    /// It shall run opensm, on this port.
    pub opensm_port: Option<String>,
}

/// The caches.
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
    /// Begin to watch.
    pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        let client = &context.client;
        let all = watcher::Config::default();
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            nodes: Reflector::start(
                tasks,
                "nodes for partitions",
                Api::all(client.clone()),
                all.clone(),
                node_facts,
            ),
            node_partitions: Reflector::start(
                tasks,
                "the nodes' partitions",
                Api::all(client.clone()),
                all.clone(),
                Some,
            ),
            partitions: Reflector::start(tasks, "partitions", Api::all(client.clone()), all.clone(), Some),
            hosts: Reflector::start(tasks, "hosts of subnet managers", Api::all(client.clone()), all, Some),
            secrets: Reflector::start(
                tasks,
                "the Secret of the subnet manager",
                Api::namespaced(client.clone(), PartitionSettings::NAMESPACE),
                named(UFM_SECRET),
                secret_strings,
            ),
            config_maps: Reflector::start(
                tasks,
                "the ConfigMap of the subnet manager",
                Api::namespaced(client.clone(), PartitionSettings::NAMESPACE),
                named(PartitionSettings::CONFIG_MAP),
                |map: ConfigMap| Some(map.data.unwrap_or_default()),
            ),
        }
    }

    /// Whether every first list has come.
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
