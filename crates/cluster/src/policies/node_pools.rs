//! Node pools (SriovNetworkPoolConfig). All nodes of a pool share a drain budget and settings.

use ferroband_api::sriov::SriovNetworkPoolConfig;
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use std::{collections::BTreeMap, sync::Arc};

/// All pools with their parsed node selectors. Pools for OVS hardware offload are left out, because Ferroband
/// does not manage OVS.
#[derive(Clone, Debug, Default)]
pub struct NodePools(Vec<(Arc<SriovNetworkPoolConfig>, Selector)>);

/// How many nodes of a pool may be drained at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainBudget {
    Unlimited,
    AtMost(usize),
}

impl NodePools {
    /// Parses the node selectors of the pools. Also returns the pools with an invalid selector, each with the reason.
    pub fn from_objects(
        objects: impl IntoIterator<Item = Arc<SriovNetworkPoolConfig>>,
    ) -> (Self, Vec<(Arc<SriovNetworkPoolConfig>, String)>) {
        let (mut pools, mut invalid) = (Vec::new(), Vec::new());
        for pool in objects {
            let offload = pool.spec.ovs_hardware_offload_config.as_ref().and_then(|o| o.name.as_ref());
            if offload.is_some_and(|name| !name.is_empty()) {
                continue;
            }
            // A pool without a selector contains every node.
            match selector(pool.spec.node_selector.as_ref()) {
                Ok(selector) => pools.push((pool, selector)),
                Err(cause) => invalid.push((pool, cause)),
            }
        }
        pools.sort_by_key(|(pool, _)| (pool.namespace(), pool.name_any()));
        (Self(pools), invalid)
    }

    /// Returns the pool that selects a node with these labels. If several pools select it, the error contains
    /// their names.
    pub fn pool_for(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<Option<&Arc<SriovNetworkPoolConfig>>, Vec<String>> {
        let mut found = self.0.iter().filter(|(_, selector)| selector.matches(labels)).map(|(pool, _)| pool);
        match (found.next(), found.next()) {
            (Some(one), Some(two)) => {
                Err([one, two].into_iter().chain(found).map(|pool| pool.name_any()).collect())
            }
            (one, _) => Ok(one),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<SriovNetworkPoolConfig>> {
        self.0.iter().map(|(pool, _)| pool)
    }
}

impl DrainBudget {
    /// Returns the drain budget of a pool with `nodes` nodes. Nodes in no pool are drained one at a time. The
    /// error says why `maxUnavailable` is invalid.
    pub fn of_pool(pool: Option<&SriovNetworkPoolConfig>, nodes: usize) -> Result<Self, String> {
        let Some(pool) = pool else { return Ok(Self::AtMost(1)) };
        match &pool.spec.max_unavailable {
            None => Ok(Self::Unlimited),
            Some(IntOrString::Int(count)) => {
                usize::try_from(*count).map(Self::AtMost).map_err(|_| format!("{count} must be 0 or more"))
            }
            Some(IntOrString::String(text)) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<usize>().ok());
                match percent {
                    // The result is rounded down, as in the SR-IOV operator.
                    Some(percent @ 1..=100) => Ok(Self::AtMost(nodes * percent / 100)),
                    _ => Err(format!("`{text}` must be a number or a percentage from 1% to 100%")),
                }
            }
        }
    }

    /// Whether one more node may be drained while `draining` nodes are being drained.
    pub fn allows(self, draining: usize) -> bool {
        match self {
            Self::Unlimited => true,
            Self::AtMost(most) => draining < most,
        }
    }
}

fn selector(labels: Option<&LabelSelector>) -> Result<Selector, String> {
    let Some(labels) = labels else { return Ok(Selector::default()) };
    Selector::try_from(labels.clone()).map_err(|e| format!("spec.nodeSelector: {e}"))
}
