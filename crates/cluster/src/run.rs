//! Starts the parts of the cluster daemon: leader election, webhook and controllers.

use crate::{
    ClusterSettings, ControllerContext, Error, controllers, etcd_restore::EtcdHistory, lease::LeaderLease,
    networks::NetworkCaches, webhook,
};
use ferroband_daemon::{
    api_client, shutdown_signal,
    tasks::{TaskEnded, TaskSet},
};
use tracing::info;

/// Runs the daemon until SIGTERM or SIGINT.
pub async fn run(settings: ClusterSettings) -> Result<(), Error> {
    let shutdown = shutdown_signal()
        .map_err(|e| TaskEnded { task: "waiting for signals", source: Some(Box::new(e)) })?;
    let client = api_client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let lease = LeaderLease::new(client.clone(), &settings);
    let context = ControllerContext::new(client, settings);
    let mut tasks = TaskSet::default();
    let network_caches = NetworkCaches::start(&context.client, &mut tasks);
    let webhook_objects =
        webhook::WebhookObjects::start(&context.client, &context.settings.namespace, &mut tasks);
    webhook::start(&context, &network_caches, &webhook_objects, &mut tasks)?;
    // Every replica follows the revisions of etcd, so that the next leader knows them, too.
    let etcd_history = EtcdHistory::start(&context, &mut tasks);
    let shared = (network_caches, webhook_objects, etcd_history);
    tasks.start("leader election", lead_while_held(lease.clone(), context, shared, tasks.stop.clone()));
    let ended = tasks.run_until(shutdown).await;
    info!("stopping");
    tasks.stop_all().await;
    // Release the lease, so that the other replica need not wait until it expires.
    lease.release().await;
    ended
}

/// Acquires the lease, runs the controllers while this replica holds it, stops them when it is lost, and starts over.
async fn lead_while_held(
    lease: LeaderLease,
    context: ControllerContext,
    (network_caches, webhook_objects, etcd_history): (NetworkCaches, webhook::WebhookObjects, EtcdHistory),
    stop: tokio_util::sync::CancellationToken,
) -> Result<(), Error> {
    while let Some(continues) = stop.run_until_cancelled(lease.acquire()).await {
        info!("acquired the lease; starting the controllers");
        let mut tasks = TaskSet::default();
        let etcd_history = (&etcd_history, continues);
        controllers::start(&context, &network_caches, &webhook_objects, etcd_history, &mut tasks);
        let lost = async {
            tokio::select! {
                () = lease.renew_until_lost() => {}
                () = stop.cancelled() => {}
            }
        };
        let ended = tasks.run_until(lost).await;
        tasks.stop_all().await;
        ended?;
        info!("controllers stopped, because the lease was lost or the daemon is stopping");
    }
    Ok(())
}
