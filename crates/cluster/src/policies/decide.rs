//! Computes the desired spec of every node from policies, pools and reported adapters. Does no I/O.

use super::{NodePools, PolicyFinding, SelectedNic, merge, new_condition, select_nics, validate};
use ferroband_api::sriov::{
    FAILED, SUCCEEDED, SriovNetworkNodePolicy, SriovNetworkNodeState, SriovNetworkNodeStateSpec,
    SriovNetworkPoolConfig, SriovOperatorConfigSpec, SystemState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of nodes or findings that the message of a condition lists.
const MAX_NAMED: usize = 3;

/// A node with the data by which policies select it: its labels and reported adapters.
#[derive(Clone, Debug)]
pub struct PolicyNode {
    pub name: String,
    pub labels: Arc<BTreeMap<String, String>>,
    /// SriovNetworkNodeState that the node daemon reported; absent if it has not reported yet.
    pub state: Option<Arc<SriovNetworkNodeState>>,
}

/// The desired specs of the nodes' SriovNetworkNodeStates, and the conditions of policies and pools.
#[derive(Debug, Default)]
pub struct PolicyDecision {
    /// Desired spec by node. The specs of nodes that are not in the map are not changed.
    pub specs: BTreeMap<String, SriovNetworkNodeStateSpec>,
    pub policies: Vec<(Arc<SriovNetworkNodePolicy>, Vec<Condition>)>,
    pub pools: Vec<(Arc<SriovNetworkPoolConfig>, Vec<Condition>)>,
}

/// What was found about one policy on all nodes, from which the policy's conditions are built.
#[derive(Default)]
struct PolicyReport {
    nodes: usize,
    unreported: usize,
    adapters: BTreeMap<String, usize>,
    first_mismatch: Option<String>,
    findings: BTreeMap<PolicyFinding, BTreeSet<String>>,
}

/// Computes specs and conditions. A policy outside of `trusted_namespaces` is not applied and gets a condition that
/// says so.
pub fn decide(
    mut policies: Vec<Arc<SriovNetworkNodePolicy>>,
    nodes: &[PolicyNode],
    pools: &NodePools,
    operator: &SriovOperatorConfigSpec,
    trusted_namespaces: &[&str],
) -> PolicyDecision {
    // Oldest first: if two policies conflict, the older one applies.
    policies.sort_by_key(|p| (p.creation_timestamp().map(|t| t.0), p.namespace(), p.name_any()));
    let applies = |p: &SriovNetworkNodePolicy| {
        trusted_namespaces.contains(&p.namespace().unwrap_or_default().as_str()) && p.name_any() != "default"
    };
    let mut reports: Vec<PolicyReport> = policies.iter().map(|_| PolicyReport::default()).collect();
    let mut decision = PolicyDecision::default();
    let mut in_several_pools: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| is_selected(node, operator)) {
        let mut claims: Vec<(&SriovNetworkNodePolicy, SelectedNic<'_>)> = Vec::new();
        let nics =
            node.state.as_ref().and_then(|state| state.status.as_ref()).map(|status| &status.interfaces);
        for (policy, report) in policies.iter().zip(&mut reports).filter(|(policy, _)| applies(policy)) {
            if policy.metadata.deletion_timestamp.is_some()
                || policy.spec.node_selector.iter().any(|(key, value)| node.labels.get(key) != Some(value))
            {
                continue;
            }
            report.nodes += 1;
            let Some(nics) = nics.filter(|nics| !nics.is_empty()) else {
                report.unreported += 1;
                continue;
            };
            match select_nics(&policy.spec.nic_selector, nics) {
                Err(problem) => {
                    report.first_mismatch.get_or_insert_with(|| format!("node {}: {problem}", node.name));
                }
                Ok(selected) => report.add_claims(policy, selected, &node.name, &mut claims),
            }
        }
        if nics.is_none_or(Vec::is_empty) {
            continue;
        }
        let system = match pools.pool_for(&node.labels) {
            Ok(pool) => system_state(pool, operator),
            Err(names) => {
                for name in names {
                    in_several_pools.entry(name).or_default().push(node.name.clone());
                }
                // Several pools select the node, so its pool is ambiguous. Keep the system settings of the
                // node unchanged.
                node.state.as_ref().and_then(|state| state.spec.system.clone())
            }
        };
        let spec = SriovNetworkNodeStateSpec { interfaces: merge(&claims), bridges: None, system };
        decision.specs.insert(node.name.clone(), spec);
    }
    for (policy, report) in policies.iter().zip(reports) {
        if policy.name_any() == "default" {
            continue;
        }
        let conditions = if applies(policy) {
            report.conditions(nodes, &decision.specs)
        } else {
            let message = format!(
                "policies apply only in the namespaces {}; create this policy in one of them",
                trusted_namespaces.join(", ")
            );
            vec![new_condition("Accepted", false, "OtherNamespace", message)]
        };
        decision.policies.push((policy.clone(), conditions));
    }
    decision.pools = pools
        .all()
        .map(|pool| (pool.clone(), vec![pool_condition(pool, pools, nodes, &in_several_pools)]))
        .collect();
    decision
}

/// Whether policies apply to the node. They apply to all Linux nodes, or only to those that the SriovOperatorConfig
/// selects.
fn is_selected(node: &PolicyNode, operator: &SriovOperatorConfigSpec) -> bool {
    let has = |(key, value): (&String, &String)| node.labels.get(key) == Some(value);
    let linux = node.labels.get("kubernetes.io/os").is_none_or(|os| os == "linux");
    linux && operator.config_daemon_node_selector.iter().all(has)
}

fn system_state(
    pool: Option<&Arc<SriovNetworkPoolConfig>>,
    operator: &SriovOperatorConfigSpec,
) -> Option<SystemState> {
    let spec = pool.map(|pool| &pool.spec);
    let system = SystemState {
        rdma_mode: spec.and_then(|spec| spec.rdma_mode.clone()),
        allow_reboot: spec.and_then(|spec| spec.allow_reboot).filter(|allow| *allow),
        disable_drain: operator.disable_drain.filter(|disable| *disable),
        disable_plugins: operator.disable_plugins.clone(),
    };
    (system != SystemState::default()).then_some(system)
}

fn pool_condition(
    pool: &SriovNetworkPoolConfig,
    pools: &NodePools,
    nodes: &[PolicyNode],
    in_several_pools: &BTreeMap<String, Vec<String>>,
) -> Condition {
    let name = pool.name_any();
    if let Some(nodes) = in_several_pools.get(&name) {
        let message = format!(
            "nodes that other pools select as well: {}; change spec.nodeSelector so that only one pool selects each node",
            abbreviate(nodes)
        );
        return new_condition("Ready", false, "NodeInTwoPools", message);
    }
    let in_pool = |node: &&PolicyNode| matches!(pools.pool_for(&node.labels), Ok(Some(found)) if found.name_any() == name && found.namespace() == pool.namespace());
    let count = nodes.iter().filter(in_pool).count();
    match super::DrainBudget::of_pool(Some(pool), count) {
        Err(problem) => {
            new_condition("Ready", false, "InvalidConfig", format!("spec.maxUnavailable: {problem}"))
        }
        Ok(super::DrainBudget::AtMost(0)) if count > 0 => new_condition(
            "Ready",
            false,
            "NeverDrains",
            format!(
                "spec.maxUnavailable resolves to 0 of {count} nodes, so none of them is ever drained; use a number of 1 or more"
            ),
        ),
        Ok(_) => new_condition("Ready", true, "PoolReady", format!("{count} nodes")),
    }
}

impl PolicyReport {
    /// Validates the adapters that a policy selects on a node, and adds the accepted ones to `claims`.
    fn add_claims<'a>(
        &mut self,
        policy: &'a SriovNetworkNodePolicy,
        selected: Vec<SelectedNic<'a>>,
        node: &str,
        claims: &mut Vec<(&'a SriovNetworkNodePolicy, SelectedNic<'a>)>,
    ) {
        for selection in selected {
            let same = |(_, other): &&(&'a SriovNetworkNodePolicy, SelectedNic<'a>)| {
                other.nic.pci_address == selection.nic.pci_address
            };
            let earlier: Vec<_> = claims.iter().filter(same).copied().collect();
            let findings = validate(policy, &selection, &earlier);
            let rejected = findings.iter().any(|finding| finding.rejects);
            let location = format!(
                "node {node}, {}",
                selection.nic.name.as_deref().unwrap_or(&selection.nic.pci_address)
            );
            for finding in findings {
                self.findings.entry(finding).or_default().insert(location.clone());
            }
            if !rejected {
                *self.adapters.entry(node.to_owned()).or_default() += 1;
                claims.push((policy, selection));
            }
        }
    }

    fn conditions(
        self,
        nodes: &[PolicyNode],
        specs: &BTreeMap<String, SriovNetworkNodeStateSpec>,
    ) -> Vec<Condition> {
        vec![self.accepted_condition(), self.matched_condition(), self.ready_condition(nodes, specs)]
    }

    fn accepted_condition(&self) -> Condition {
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|(finding, _)| !finding.rejects);
        let messages: Vec<_> = findings
            .iter()
            .take(MAX_NAMED)
            .map(|(finding, places)| {
                let places: Vec<_> = places.iter().cloned().collect();
                format!("{}: {} ({})", finding.field, finding.cause, abbreviate(&places))
            })
            .collect();
        match findings.first() {
            None => new_condition("Accepted", true, "Valid", "the policy is valid"),
            Some((finding, _)) => {
                new_condition("Accepted", !finding.rejects, finding.reason, messages.join("; "))
            }
        }
    }

    fn matched_condition(&self) -> Condition {
        let adapters: usize = self.adapters.values().sum();
        let mismatch = self.first_mismatch.as_deref().unwrap_or_default();
        match (self.nodes, adapters) {
            (0, _) => new_condition(
                "Matched",
                false,
                "NoNode",
                "spec.nodeSelector: no node has all of these labels; see `kubectl get nodes --show-labels`",
            ),
            (nodes, 0) if self.unreported == nodes => new_condition(
                "Matched",
                false,
                "NotReported",
                format!("the node daemons of {nodes} nodes have not reported their adapters yet"),
            ),
            (_, 0) if mismatch.is_empty() => new_condition(
                "Matched",
                false,
                "Refused",
                "every selected adapter is rejected; see condition Accepted",
            ),
            (nodes, 0) => new_condition(
                "Matched",
                false,
                "NoNic",
                format!("spec.nicSelector matches no adapter on {nodes} nodes; {mismatch}"),
            ),
            (_, adapters) => new_condition(
                "Matched",
                true,
                "Matched",
                format!(
                    "the policy applies to {adapters} adapters on {} of {} nodes",
                    self.adapters.len(),
                    self.nodes
                ),
            ),
        }
    }

    fn ready_condition(
        &self,
        nodes: &[PolicyNode],
        specs: &BTreeMap<String, SriovNetworkNodeStateSpec>,
    ) -> Condition {
        let all = self.adapters.len();
        if all == 0 {
            return new_condition("Ready", false, "NoMatch", "the policy applies to no node");
        }
        let (mut ready, mut failed) = (0, Vec::new());
        for node in nodes.iter().filter(|node| self.adapters.contains_key(&node.name)) {
            let Some(state) = node.state.as_ref() else { continue };
            let Some(status) = state.status.as_ref() else { continue };
            let current = specs.get(&node.name) == Some(&state.spec)
                && status.observed_generation == state.metadata.generation;
            match status.sync_status.as_deref() {
                Some(SUCCEEDED) if current => ready += 1,
                Some(FAILED) if current => {
                    let problem =
                        status.last_sync_error.as_deref().unwrap_or("see its SriovNetworkNodeState");
                    failed.push(format!("{}: {problem}", node.name));
                }
                _ => {}
            }
        }
        let count = format!("{ready} of {all} nodes");
        match (ready == all, failed.is_empty()) {
            (true, _) => new_condition("Ready", true, "AllNodesReady", count),
            (false, true) => new_condition("Ready", false, "InProgress", count),
            (false, false) => {
                new_condition("Ready", false, "Failed", format!("{count}; {}", abbreviate(&failed)))
            }
        }
    }
}

fn abbreviate(all: &[String]) -> String {
    match all.len().checked_sub(MAX_NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", all[..MAX_NAMED].join(", ")),
        _ => all.join(", "),
    }
}
