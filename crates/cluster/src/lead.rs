//! The leader's work, put together: the caches it needs, and what wakes what.

use crate::{
    ControllerContext, Error, address,
    drain::DrainController,
    networks,
    partition::PartitionController,
    policies::{PolicyCaches, PolicyController},
    webhook,
};
use ferroband_daemon::tasks::TaskSet;

/// Start all of it. It ends with `tasks`, when the lease is lost or the daemon stops.
pub fn start(
    context: &ControllerContext,
    sources: &networks::NetworkCaches,
    kept: &webhook::WebhookObjects,
    tasks: &mut TaskSet<Error>,
) {
    let seen = PolicyCaches::start(context, tasks);
    PolicyController::start(context, &seen, tasks);
    DrainController::start(context, &seen, tasks);
    networks::start(context, sources, tasks);
    webhook::start_leader_tasks(context, sources, kept, tasks);
    address::start(context, tasks);
    PartitionController::start(context, tasks);
}
