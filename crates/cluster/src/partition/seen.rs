//! What the leader watches for partitions.

use crate::{Context, Error, Watched};
use ferroband_api::ferroband::{NodePartitions, Partition, SubnetManagerHost};
use ferroband_daemon::tasks::Tasks;
use ferroband_partition::Settings;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::{Api, runtime::watcher};
use std::collections::BTreeMap;

/// The Secret of ib-kubernetes.
pub const SECRET: &str = "ib-kubernetes-ufm-secret";
/// On a node that shall run opensm; its value says on which port.
pub const MANAGER_LABEL: &str = "ferroband.io/subnet-manager";
/// On a node that is known to be off: its pods run nowhere (Kubernetes' own taint).
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What counts of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its pods run nowhere any more.
    pub out: bool,
    /// It shall run opensm, on this port.
    pub manager: Option<String>,
}

/// The caches.
#[derive(Clone)]
pub struct Seen {
    pub nodes: Watched<NodeFacts>,
    pub memberships: Watched<NodePartitions>,
    pub partitions: Watched<Partition>,
    pub hosts: Watched<SubnetManagerHost>,
    pub secrets: Watched<BTreeMap<String, String>>,
    pub config_maps: Watched<BTreeMap<String, String>>,
}

impl Seen {
    /// Begin to watch.
    pub fn start(context: &Context, tasks: &mut Tasks<Error>) -> Self {
        let client = &context.client;
        let all = watcher::Config::default();
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            nodes: Watched::start(
                tasks,
                "nodes for partitions",
                Api::all(client.clone()),
                all.clone(),
                facts,
            ),
            memberships: Watched::start(
                tasks,
                "the nodes' partitions",
                Api::all(client.clone()),
                all.clone(),
                Some,
            ),
            partitions: Watched::start(tasks, "partitions", Api::all(client.clone()), all.clone(), Some),
            hosts: Watched::start(tasks, "hosts of subnet managers", Api::all(client.clone()), all, Some),
            secrets: Watched::start(
                tasks,
                "the Secret of the subnet manager",
                Api::namespaced(client.clone(), Settings::NAMESPACE),
                named(SECRET),
                secret,
            ),
            config_maps: Watched::start(
                tasks,
                "the ConfigMap of the subnet manager",
                Api::namespaced(client.clone(), Settings::NAMESPACE),
                named(Settings::CONFIG_MAP),
                |map: ConfigMap| Some(map.data.unwrap_or_default()),
            ),
        }
    }

    /// Whether every first list has come.
    pub fn is_complete(&self) -> bool {
        self.nodes.is_complete()
            && self.memberships.is_complete()
            && self.partitions.is_complete()
            && self.secrets.is_complete()
            && self.config_maps.is_complete()
            && self.hosts.is_complete()
    }
}

fn facts(node: Node) -> Option<NodeFacts> {
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    Some(NodeFacts {
        out: taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
        manager: node
            .metadata
            .labels
            .and_then(|mut labels| labels.remove(MANAGER_LABEL))
            .filter(|port| port != "false"),
    })
}

fn secret(secret: Secret) -> Option<BTreeMap<String, String>> {
    let text =
        |(name, value): (String, k8s_openapi::ByteString)| Some((name, String::from_utf8(value.0).ok()?));
    Some(secret.data.unwrap_or_default().into_iter().filter_map(text).collect())
}
