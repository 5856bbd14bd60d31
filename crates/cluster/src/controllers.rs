//! Starts the leader's controllers and the caches they share.

use crate::{
    ControllerContext, Error, address,
    drain::DrainController,
    networks,
    node_facts::NodeFacts,
    partition::PartitionController,
    policies::{PolicyCaches, PolicyController},
    webhook,
};
use ferroband_daemon::tasks::TaskSet;

/// Starts all controllers in `tasks`, which ends when the lease is lost or the daemon stops.
pub fn start(
    context: &ControllerContext,
    network_caches: &networks::NetworkCaches,
    webhook_objects: &webhook::WebhookObjects,
    tasks: &mut TaskSet<Error>,
) {
    let nodes = NodeFacts::watch(context, tasks);
    let policy_caches = PolicyCaches::start(context, &nodes, tasks);
    PolicyController::start(context, &policy_caches, tasks);
    DrainController::start(context, &policy_caches, tasks);
    networks::start(context, network_caches, tasks);
    webhook::start_leader_tasks(context, network_caches, webhook_objects, tasks);
    address::start(context, &nodes, tasks);
    PartitionController::start(context, &nodes, tasks);
}
