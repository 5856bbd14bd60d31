//! The daemon, put together.

use crate::{
    ClusterSettings, ControllerContext, Error, lead, lease::LeaderLease, networks::NetworkCaches, webhook,
};
use ferroband_daemon::{
    api_client, shutdown_signal,
    tasks::{TaskEnded, TaskSet},
};
use tracing::info;

/// Run the daemon until SIGTERM or SIGINT.
pub async fn run(settings: ClusterSettings) -> Result<(), Error> {
    let asked = shutdown_signal()
        .map_err(|e| TaskEnded { task: "waiting for signals", source: Some(Box::new(e)) })?;
    let client = api_client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let lease = LeaderLease::new(client.clone(), &settings);
    let context = ControllerContext::new(client, settings);
    let mut tasks = TaskSet::default();
    let sources = NetworkCaches::start(&context.client, &mut tasks);
    let kept = webhook::WebhookObjects::start(&context.client, &context.settings.namespace, &mut tasks);
    webhook::start(&context, &sources, &kept, &mut tasks)?;
    tasks.start("leading", lead_while_held(lease.clone(), context, (sources, kept), tasks.stop.clone()));
    let ended = tasks.run_until(asked).await;
    info!("stopping");
    tasks.stop_all().await;
    // The other replica need not wait for the lease to run out.
    lease.release().await;
    ended
}

/// Lead whenever the lease is ours.
async fn lead_while_held(
    lease: LeaderLease,
    context: ControllerContext,
    (sources, kept): (NetworkCaches, webhook::WebhookObjects),
    stop: tokio_util::sync::CancellationToken,
) -> Result<(), Error> {
    while stop.run_until_cancelled(lease.acquire()).await.is_some() {
        info!("leading");
        let mut tasks = TaskSet::default();
        lead::start(&context, &sources, &kept, &mut tasks);
        let lost = async {
            tokio::select! {
                () = lease.renew_until_lost() => {}
                () = stop.cancelled() => {}
            }
        };
        let ended = tasks.run_until(lost).await;
        tasks.stop_all().await;
        ended?;
        info!("not leading any more");
    }
    Ok(())
}
