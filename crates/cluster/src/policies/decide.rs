//! Everything that people wrote and everything that nodes reported, to what every node shall have.

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

/// How many nodes or findings a message names.
const MAX_NAMED: usize = 3;

/// A node as it matters here.
#[derive(Clone, Debug)]
pub struct PolicyNode {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// What its daemon reported.
    pub state: Option<Arc<SriovNetworkNodeState>>,
}

/// What follows.
#[derive(Debug, Default)]
pub struct PolicyDecision {
    /// What each node shall have. A node that is not here is left alone.
    pub specs: BTreeMap<String, SriovNetworkNodeStateSpec>,
    /// What came of each policy.
    pub policies: Vec<(Arc<SriovNetworkNodePolicy>, Vec<Condition>)>,
    /// What came of each pool of nodes.
    pub pools: Vec<(Arc<SriovNetworkPoolConfig>, Vec<Condition>)>,
}

/// What is noted about a policy on the way.
#[derive(Default)]
struct PolicyReport {
    nodes: usize,
    unreported: usize,
    adapters: BTreeMap<String, usize>,
    first_mismatch: Option<String>,
    findings: BTreeMap<PolicyFinding, BTreeSet<String>>,
}

/// Decide. `honoured` are the namespaces whose policies count.
pub fn decide(
    mut policies: Vec<Arc<SriovNetworkNodePolicy>>,
    nodes: &[PolicyNode],
    pools: &NodePools,
    operator: &SriovOperatorConfigSpec,
    honoured: &[&str],
) -> PolicyDecision {
    // What stood first stays.
    policies.sort_by_key(|p| (p.creation_timestamp().map(|t| t.0), p.namespace(), p.name_any()));
    let counts = |p: &SriovNetworkNodePolicy| {
        honoured.contains(&p.namespace().unwrap_or_default().as_str()) && p.name_any() != "default"
    };
    let mut notes: Vec<PolicyReport> = policies.iter().map(|_| PolicyReport::default()).collect();
    let mut decision = PolicyDecision::default();
    let mut in_two: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| is_selected(node, operator)) {
        let mut claims: Vec<(&SriovNetworkNodePolicy, SelectedNic<'_>)> = Vec::new();
        let nics =
            node.state.as_ref().and_then(|state| state.status.as_ref()).map(|status| &status.interfaces);
        for (policy, notes) in policies.iter().zip(&mut notes).filter(|(policy, _)| counts(policy)) {
            if policy.metadata.deletion_timestamp.is_some()
                || policy.spec.node_selector.iter().any(|(key, value)| node.labels.get(key) != Some(value))
            {
                continue;
            }
            notes.nodes += 1;
            let Some(nics) = nics.filter(|nics| !nics.is_empty()) else {
                notes.unreported += 1;
                continue;
            };
            match select_nics(&policy.spec.nic_selector, nics) {
                Err(why) => {
                    notes.first_mismatch.get_or_insert_with(|| format!("node {}: {why}", node.name));
                }
                Ok(chosen) => notes.add_claims(policy, chosen, &node.name, &mut claims),
            }
        }
        if nics.is_none_or(Vec::is_empty) {
            continue;
        }
        let system = match pools.pool_for(&node.labels) {
            Ok(pool) => system_state(pool, operator),
            Err(names) => {
                for name in names {
                    in_two.entry(name).or_default().push(node.name.clone());
                }
                // Not known is not "none": what was said before stands.
                node.state.as_ref().and_then(|state| state.spec.system.clone())
            }
        };
        let spec = SriovNetworkNodeStateSpec { interfaces: merge(&claims), bridges: None, system };
        decision.specs.insert(node.name.clone(), spec);
    }
    for (policy, notes) in policies.iter().zip(notes) {
        if policy.name_any() == "default" {
            continue;
        }
        let told = if counts(policy) {
            notes.conditions(nodes, &decision.specs)
        } else {
            let message =
                format!("policies count in the namespaces {}; create it in one of them", honoured.join(", "));
            vec![new_condition("Accepted", false, "OtherNamespace", message)]
        };
        decision.policies.push((policy.clone(), told));
    }
    decision.pools =
        pools.all().map(|pool| (pool.clone(), vec![pool_condition(pool, pools, nodes, &in_two)])).collect();
    decision
}

/// All Linux nodes, unless the configuration names some.
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
    in_two: &BTreeMap<String, Vec<String>>,
) -> Condition {
    let name = pool.name_any();
    if let Some(nodes) = in_two.get(&name) {
        let message = format!("{} in another pool, too; a node is in one pool only", abbreviate(nodes));
        return new_condition("Ready", false, "NodeInTwoPools", message);
    }
    let mine = |node: &&PolicyNode| matches!(pools.pool_for(&node.labels), Ok(Some(found)) if found.name_any() == name && found.namespace() == pool.namespace());
    let count = nodes.iter().filter(mine).count();
    match super::DrainBudget::of_pool(Some(pool), count) {
        Err(why) => new_condition("Ready", false, "InvalidConfig", format!("spec.maxUnavailable {why}")),
        Ok(super::DrainBudget::AtMost(0)) if count > 0 => new_condition(
            "Ready",
            false,
            "NeverDrains",
            format!(
                "spec.maxUnavailable resolves to 0 of {count} nodes: none of them is ever drained; give a number"
            ),
        ),
        Ok(_) => new_condition("Ready", true, "PoolReady", format!("{count} nodes")),
    }
}

impl PolicyReport {
    /// Take in what a policy wants of a node.
    fn add_claims<'a>(
        &mut self,
        policy: &'a SriovNetworkNodePolicy,
        chosen: Vec<SelectedNic<'a>>,
        node: &str,
        claims: &mut Vec<(&'a SriovNetworkNodePolicy, SelectedNic<'a>)>,
    ) {
        for one in chosen {
            let same = |(_, theirs): &&(&'a SriovNetworkNodePolicy, SelectedNic<'a>)| {
                theirs.nic.pci_address == one.nic.pci_address
            };
            let earlier: Vec<_> = claims.iter().filter(same).copied().collect();
            let found = validate(policy, &one, &earlier);
            let refused = found.iter().any(|finding| finding.rejects);
            let place = format!("node {node}, {}", one.nic.name.as_deref().unwrap_or(&one.nic.pci_address));
            for finding in found {
                self.findings.entry(finding).or_default().insert(place.clone());
            }
            if !refused {
                *self.adapters.entry(node.to_owned()).or_default() += 1;
                claims.push((policy, one));
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
        let told: Vec<_> = findings
            .iter()
            .take(MAX_NAMED)
            .map(|(finding, places)| {
                let places: Vec<_> = places.iter().cloned().collect();
                format!("{}: {} ({})", finding.field, finding.cause, abbreviate(&places))
            })
            .collect();
        match findings.first() {
            None => new_condition("Accepted", true, "Valid", "as written"),
            Some((finding, _)) => {
                new_condition("Accepted", !finding.rejects, finding.reason, told.join("; "))
            }
        }
    }

    fn matched_condition(&self) -> Condition {
        let adapters: usize = self.adapters.values().sum();
        let missed = self.first_mismatch.as_deref().unwrap_or_default();
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
            (_, 0) if missed.is_empty() => new_condition(
                "Matched",
                false,
                "Refused",
                "every adapter that it selects is refused; see Accepted",
            ),
            (nodes, 0) => new_condition(
                "Matched",
                false,
                "NoNic",
                format!("spec.nicSelector: no adapter on {nodes} nodes; {missed}"),
            ),
            (_, adapters) => new_condition(
                "Matched",
                true,
                "Matched",
                format!("{adapters} adapters on {} of {} nodes", self.adapters.len(), self.nodes),
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
            return new_condition("Ready", false, "NoMatch", "it has effect on no node");
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
                    let why = status.last_sync_error.as_deref().unwrap_or("see its node state");
                    failed.push(format!("{}: {why}", node.name));
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
