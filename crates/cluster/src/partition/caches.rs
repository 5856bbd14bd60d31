//! API objects that the partition controller watches and caches.

use super::guid_claims::GuidBlockNodes;
use crate::node_facts::NodeFacts;
use crate::{ControllerContext, Error, node_liveness::NodeLiveness};
use ferroband_api::ferroband::{NodePartitions, Partition, SubnetManagerHost};
use ferroband_daemon::{Reflectors, SharedCache, named, tasks::TaskSet};
use ferroband_partition::PartitionSettings;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use std::collections::BTreeMap;

/// Name of ib-kubernetes' Secret with the UFM credentials.
pub const UFM_SECRET: &str = "ib-kubernetes-ufm-secret";

#[derive(Clone)]
pub struct PartitionCaches {
    pub nodes: SharedCache<NodeFacts>,
    pub liveness: NodeLiveness,
    pub node_partitions: SharedCache<NodePartitions>,
    pub partitions: SharedCache<Partition>,
    /// Which nodes have claims in which GuidBlock.
    pub guid_blocks: SharedCache<GuidBlockNodes>,
    pub hosts: SharedCache<SubnetManagerHost>,
    pub secrets: SharedCache<BTreeMap<String, String>>,
    pub config_maps: SharedCache<BTreeMap<String, String>>,
}

impl PartitionCaches {
    /// Starts one watch for each cache except `nodes`. The watches run until `tasks` ends.
    pub fn start(context: &ControllerContext, liveness: &NodeLiveness, tasks: &mut TaskSet<Error>) -> Self {
        let mut watch = Reflectors { client: &context.client, tasks };
        let namespace = PartitionSettings::NAMESPACE;
        let secrets = Api::namespaced(context.client.clone(), namespace);
        let config_maps = Api::namespaced(context.client.clone(), namespace);
        let map_data = |map: ConfigMap| Some(map.data.unwrap_or_default());
        let map_name = named(PartitionSettings::CONFIG_MAP);
        Self {
            nodes: liveness.nodes.clone(),
            liveness: liveness.clone(),
            guid_blocks: watch.all("GuidBlocks", |block| Some(GuidBlockNodes::of(&block))),
            node_partitions: watch.all("NodePartitions", Some),
            partitions: watch.all("Partitions", Some),
            hosts: watch.all("SubnetManagerHosts", Some),
            secrets: watch.start("UFM Secret", secrets, named(UFM_SECRET), secret_strings),
            config_maps: watch.start("ib-kubernetes ConfigMap", config_maps, map_name, map_data),
        }
    }
}

fn secret_strings(secret: Secret) -> Option<BTreeMap<String, String>> {
    let text =
        |(name, value): (String, k8s_openapi::ByteString)| Some((name, String::from_utf8(value.0).ok()?));
    Some(secret.data.unwrap_or_default().into_iter().filter_map(text).collect())
}
