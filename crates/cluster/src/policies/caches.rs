//! API objects that the policy controller and the drain controller watch and cache.

use super::{NodePools, PolicyNode};
use crate::{ControllerContext, Error, node_facts::NodeFacts};
use ferroband_api::sriov::{
    SriovNetworkNodePolicy, SriovNetworkNodeState, SriovNetworkPoolConfig, SriovOperatorConfig,
    SriovOperatorConfigSpec,
};
use ferroband_daemon::{Reflectors, SharedCache, tasks::TaskSet, watch_cache::ObjectKey};
use kube::{Api, runtime::watcher};
use std::sync::Arc;

/// Caches shared by the policy controller and the drain controller.
#[derive(Clone)]
pub struct PolicyCaches {
    pub nodes: SharedCache<NodeFacts>,
    /// The SriovNetworkNodeStates without the VFs of their adapters, which are removed to save memory.
    pub states: SharedCache<SriovNetworkNodeState>,
    pub pools: SharedCache<SriovNetworkPoolConfig>,
    pub policies: SharedCache<SriovNetworkNodePolicy>,
    pub operators: SharedCache<SriovOperatorConfig>,
}

impl PolicyCaches {
    /// Starts one watch for each cache except `nodes`. The watches run until `tasks` ends.
    pub fn start(
        context: &ControllerContext,
        nodes: &SharedCache<NodeFacts>,
        tasks: &mut TaskSet<Error>,
    ) -> Self {
        let (client, own) = (&context.client, &context.settings.namespace);
        let mut watch = Reflectors { client, tasks };
        let all = watcher::Config::default;
        let without_vfs = |mut state: SriovNetworkNodeState| {
            // A node may list about a hundred VFs. The controllers do not need them.
            for nic in state.status.iter_mut().flat_map(|status| &mut status.interfaces) {
                nic.vfs = Vec::new();
            }
            Some(state)
        };
        let (states, operators) =
            (Api::namespaced(client.clone(), own), Api::namespaced(client.clone(), own));
        Self {
            nodes: nodes.clone(),
            states: watch.start("SriovNetworkNodeStates", states, all(), without_vfs),
            pools: watch.all("SriovNetworkPoolConfigs", Some),
            policies: watch.all("SriovNetworkNodePolicies", Some),
            operators: watch.start("SriovOperatorConfigs", operators, all(), Some),
        }
    }

    /// Returns the spec of the SriovOperatorConfig `default`, or the default values if it does not exist.
    pub fn operator_config(&self, namespace: &str) -> SriovOperatorConfigSpec {
        self.operators.get(namespace, "default").map(|config| config.spec.clone()).unwrap_or_default()
    }

    pub fn policy_nodes(&self, namespace: &str) -> Vec<PolicyNode> {
        let view = |((_, name), node): (ObjectKey, Arc<NodeFacts>)| PolicyNode {
            state: self.states.get(namespace, &name),
            labels: node.labels.clone(),
            name,
        };
        self.nodes.list().into_iter().map(view).collect()
    }

    /// Returns the valid SriovNetworkPoolConfigs in `trusted_namespaces`, and the invalid ones with the
    /// reason.
    pub fn node_pools(
        &self,
        trusted_namespaces: &[&str],
    ) -> (NodePools, Vec<(Arc<SriovNetworkPoolConfig>, String)>) {
        let all = self.pools.list().into_iter();
        NodePools::from_objects(
            all.filter(|((namespace, _), _)| trusted_namespaces.contains(&namespace.as_str()))
                .map(|(_, pool)| pool),
        )
    }
}
