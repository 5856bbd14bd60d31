//! The facts about Nodes that the controllers need. The leader watches Nodes once, for all controllers.

use crate::{ControllerContext, Error};
use ferroband_daemon::{Reflectors, SharedCache, tasks::TaskSet};
use k8s_openapi::api::core::v1::Node;
use std::{collections::BTreeMap, sync::Arc};

/// Key of the taint with which an administrator confirms that a node is off.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Label of nodes that run opensm. Its value is the port that opensm uses. The NodeRestriction admission plugin lets no
/// kubelet set labels of this prefix, so a compromised node cannot make itself a subnet manager.
const SUBNET_MANAGER_LABEL: &str = "node-restriction.kubernetes.io/ferroband-subnet-manager";

pub type NodeLabels = Arc<BTreeMap<String, String>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub labels: NodeLabels,
    pub fencing: NodeFencing,
    /// Whether the node is ready, so that its kubelet reports and stops pods.
    pub ready: bool,
}

/// Whether a node whose Node object exists may still be running pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeFencing {
    /// The node may be running pods.
    #[default]
    NotFenced,
    /// An administrator confirmed that the node is off.
    OutOfService,
}

impl NodeFacts {
    /// Starts the watch of all Nodes. It runs until `tasks` ends.
    pub fn watch(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> SharedCache<Self> {
        Reflectors { client: &context.client, tasks }.all("Nodes", |node| Some(Self::from_node(node)))
    }

    fn from_node(node: Node) -> Self {
        let (fencing, ready) = (NodeFencing::from_node(&node), is_ready(&node));
        Self { labels: Arc::new(node.metadata.labels.unwrap_or_default()), fencing, ready }
    }

    /// Whether it is known which pods the node runs: its kubelet reports them, or the node is off.
    pub fn is_reporting(&self) -> bool {
        self.ready || self.fencing == NodeFencing::OutOfService
    }

    /// Port on which the node should run opensm; `None` if it should not run opensm.
    pub fn opensm_port(&self) -> Option<&str> {
        self.labels.get(SUBNET_MANAGER_LABEL).map(String::as_str).filter(|port| *port != "false")
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

impl NodeFencing {
    /// Reads the out-of-service taint. A NotReady condition does not count: the node may only be unreachable.
    pub fn from_node(node: &Node) -> Self {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        match taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE) {
            true => Self::OutOfService,
            false => Self::NotFenced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_daemon::{Controller, Trigger, WatchCache, run_controller, watch_cache::ObjectKey};
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };
    use tokio::time::sleep;

    // Case: ipam G01
    #[test]
    fn only_the_out_of_service_taint_fences_a_node() {
        let node = |key: &str| {
            let object =
                json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
            NodeFencing::from_node(&serde_json::from_value(object).unwrap())
        };
        assert_eq!(node("node.kubernetes.io/unreachable"), NodeFencing::NotFenced);
        assert_eq!(node("node.kubernetes.io/not-ready"), NodeFencing::NotFenced);
        assert_eq!(node(OUT_OF_SERVICE), NodeFencing::OutOfService);
        assert_eq!(NodeFencing::from_node(&Node::default()), NodeFencing::NotFenced);
    }

    // Case: ipam G01
    #[test]
    fn an_unreachable_node_counts_as_running_its_pods_until_it_is_fenced() {
        let ready = |status: &str| {
            let object = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
            is_ready(&serde_json::from_value(object).unwrap())
        };
        assert!(ready("True") && !ready("Unknown") && !ready("False") && !is_ready(&Node::default()));
        let reporting = |ready, fencing| NodeFacts { ready, fencing, ..NodeFacts::default() }.is_reporting();
        assert!(reporting(true, NodeFencing::NotFenced) && reporting(false, NodeFencing::OutOfService));
        assert!(!reporting(false, NodeFencing::NotFenced));
    }

    /// Counts its passes.
    struct NodePassCounter(Arc<AtomicU32>);

    impl Controller for NodePassCounter {
        const NAME: &'static str = "counting nodes";
        type Error = Error;

        async fn reconcile(&self) -> Result<Option<Duration>, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_of_a_node_causes_no_pass() {
        let node = |heartbeat: &str, ready: &str| {
            let condition = json!({"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat});
            let object = json!({"metadata": {"name": "n", "resourceVersion": heartbeat, "labels": {"a": "b"}},
                "status": {"conditions": [condition]}});
            Some(NodeFacts::from_node(serde_json::from_value(object).unwrap()))
        };
        let (cache, passes) = (WatchCache::default(), Arc::new(AtomicU32::new(0)));
        let trigger = Trigger::default().on_change(&cache);
        let task = tokio::spawn(run_controller(NodePassCounter(passes.clone()), trigger));
        type NodeEvent = fn((ObjectKey, Option<NodeFacts>)) -> Event<(ObjectKey, Option<NodeFacts>)>;
        let see = async |event: NodeEvent, facts| {
            cache.apply(event((("".into(), "n".into()), facts)));
            sleep(Duration::from_secs(1)).await;
            passes.load(Ordering::Relaxed)
        };
        see(Event::InitApply, node("2026-11-16T17:00:00Z", "True")).await;
        cache.apply(Event::InitDone);
        for minute in 1..60 {
            let heartbeat = node(&format!("2026-11-16T17:{minute:02}:00Z"), "True");
            assert_eq!(see(Event::Apply, heartbeat).await, 1, "after {minute} minutes");
        }
        assert_eq!(see(Event::Apply, node("2026-11-16T18:00:00Z", "Unknown")).await, 2);
        task.abort();
    }

    #[test]
    fn the_label_names_the_port_of_opensm_unless_it_is_false() {
        let facts = |value: &str| {
            let labels = BTreeMap::from([(SUBNET_MANAGER_LABEL.to_owned(), value.to_owned())]);
            NodeFacts { labels: Arc::new(labels), ..NodeFacts::default() }
        };
        assert_eq!(facts("mlx5_0.1").opensm_port(), Some("mlx5_0.1"));
        assert_eq!((facts("false").opensm_port(), NodeFacts::default().opensm_port()), (None, None));
    }
}
