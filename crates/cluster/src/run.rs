//! The daemon, put together.

use crate::{Context, Error, Settings, lead, lease::Lease, networks::Sources, webhook};
use ferroband_daemon::{
    client, stop_asked,
    tasks::{Ended, Tasks},
};
use tracing::info;

/// Run the daemon until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let asked = stop_asked().map_err(|e| Ended { task: "waiting for signals", source: Some(Box::new(e)) })?;
    let client = client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let lease = Lease::new(client.clone(), &settings);
    let context = Context::new(client, settings);
    let mut tasks = Tasks::default();
    let sources = Sources::start(&context.client, &mut tasks);
    let kept = webhook::Kept::start(&context.client, &context.settings.namespace, &mut tasks);
    webhook::start(&context, &sources, &kept, &mut tasks)?;
    tasks.start("leading", lead_while_held(lease.clone(), context, (sources, kept), tasks.stop.clone()));
    let ended = tasks.until(asked).await;
    info!("stopping");
    tasks.end().await;
    // The other replica need not wait for the lease to run out.
    lease.give_up().await;
    ended
}

/// Lead whenever the lease is ours.
async fn lead_while_held(
    lease: Lease,
    context: Context,
    (sources, kept): (Sources, webhook::Kept),
    stop: tokio_util::sync::CancellationToken,
) -> Result<(), Error> {
    while stop.run_until_cancelled(lease.acquire()).await.is_some() {
        info!("leading");
        let mut tasks = Tasks::default();
        lead::start(&context, &sources, &kept, &mut tasks);
        let lost = async {
            tokio::select! {
                () = lease.lost() => {}
                () = stop.cancelled() => {}
            }
        };
        let ended = tasks.until(lost).await;
        tasks.end().await;
        ended?;
        info!("not leading any more");
    }
    Ok(())
}
