//! Node conditions and extended resources, for the node table of `ferroband status`.

use super::ClusterObjects;
use super::report::{DaemonRow, NodeRow, ResourceUsage};
use super::waiting::is_extended;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Node label whose value is `true` if the node's InfiniBand hardware is simulated.
const SIMULATED: &str = "ferroband.io/simulated";

/// One row for each node, sorted by name. Whether its node daemon is ready is taken from `daemons`.
pub fn node_rows(objects: &ClusterObjects, daemons: &[DaemonRow]) -> Vec<NodeRow> {
    let mut nodes: Vec<_> = objects.nodes.iter().map(|node| row(objects, node, daemons)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

fn row(objects: &ClusterObjects, node: &v1::Node, daemons: &[DaemonRow]) -> NodeRow {
    let name = node.name_any();
    let conditions = || node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let wrong = conditions().filter(|c| c.type_.starts_with("Ferroband") && c.status == "False");
    let state = objects.states.iter().find(|state| state.name_any() == name);
    let status = state.and_then(|state| state.status.as_ref());
    let failed = status.and_then(|status| status.last_sync_error.clone()).filter(|error| !error.is_empty());
    let here = |daemon: &&DaemonRow| daemon.component == "node" && daemon.node.as_deref() == Some(&name);
    NodeRow {
        ready: conditions().any(|c| c.type_ == "Ready" && c.status == "True"),
        schedulable: !node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
        simulated: node.labels().get(SIMULATED).is_some_and(|value| value == "true"),
        daemon: daemons.iter().find(here).map(|daemon| daemon.ready),
        sync: status.and_then(|status| status.sync_status.clone()),
        resources: resources(objects, node, &name),
        problems: wrong
            .map(|c| format!("{}: {}", c.type_, c.message.as_deref().unwrap_or("no reason given")))
            .chain(failed)
            .collect(),
        name,
    }
}

/// Returns, for each extended resource of the node, its capacity, the allocatable amount and the amount that the
/// node's pods use. Resources with the domain kubernetes.io are skipped.
fn resources(objects: &ClusterObjects, node: &v1::Node, name: &str) -> BTreeMap<String, ResourceUsage> {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref()).into_iter().flatten();
    let capacity = status.and_then(|status| status.capacity.as_ref()).into_iter().flatten();
    let mut found: BTreeMap<String, ResourceUsage> = BTreeMap::new();
    for (resource, quantity) in allocatable.filter(|(name, _)| is_extended(name)) {
        found.entry(resource.clone()).or_default().allocatable = parse_quantity(quantity);
    }
    for (resource, quantity) in capacity.filter(|(name, _)| is_extended(name)) {
        found.entry(resource.clone()).or_default().capacity = parse_quantity(quantity);
    }
    for pod in &objects.pods {
        let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let spec = pod.spec.as_ref().filter(|spec| spec.node_name.as_deref() == Some(name));
        let Some(spec) = spec.filter(|_| !matches!(ended, Some("Succeeded" | "Failed"))) else { continue };
        for container in &spec.containers {
            let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            for (resource, quantity) in limits.into_iter().flatten() {
                if let Some(amount) = found.get_mut(resource) {
                    amount.used += parse_quantity(quantity);
                }
            }
        }
    }
    found
}

/// Parses an extended resource quantity, which is an integer; thousands may be written as `1k`.
fn parse_quantity(quantity: &Quantity) -> u64 {
    match quantity.0.strip_suffix('k') {
        Some(thousands) => thousands.parse::<u64>().unwrap_or_default() * 1000,
        None => quantity.0.parse().unwrap_or_default(),
    }
}
