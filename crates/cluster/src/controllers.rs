//! Starts the leader's controllers and the caches they share.

use crate::{
    ControllerContext, Error, address,
    drain::DrainController,
    etcd_restore::{EtcdHistory, RestoreController},
    networks,
    node_liveness::NodeLiveness,
    partition::PartitionController,
    policies::{PolicyCaches, PolicyController},
    webhook,
};
use ferroband_daemon::tasks::TaskSet;
use tokio::sync::watch;

/// Starts all controllers in `tasks`, which ends when the lease is lost or the daemon stops. The flag of `etcd_history`
/// says whether etcd was certainly not restored since the previous leader.
pub fn start(
    context: &ControllerContext,
    network_caches: &networks::NetworkCaches,
    webhook_objects: &webhook::WebhookObjects,
    etcd_history: (&EtcdHistory, bool),
    tasks: &mut TaskSet<Error>,
) {
    let liveness = NodeLiveness::watch(context, tasks);
    let policy_caches = PolicyCaches::start(context, &liveness.nodes, tasks);
    PolicyController::start(context, &policy_caches, tasks);
    DrainController::start(context, &policy_caches, tasks);
    networks::start(context, network_caches, tasks);
    webhook::start_leader_tasks(context, network_caches, webhook_objects, tasks);
    address::start(context, &liveness, tasks);
    let (confirm, confirms_starts) = watch::channel(false);
    let node_partitions = PartitionController::start(context, &liveness, confirms_starts, tasks);
    RestoreController::start(context, etcd_history, &liveness, &node_partitions, confirm, tasks);
}
