//! Follows the AddressState, and learns from its lists whether etcd was restored.
//!
//! Kubernetes requires that all API servers are stopped while etcd is restored. A restore therefore ends the watch. It
//! begins again with a consistent list, whose revision is compared with the highest one seen before. Until then, the
//! daemon counts as not connected, and a node assigns no addresses.

use crate::{
    Retry, RevisionWatch, absent_kind::wait_for_crd, api_call::with_timeout, error_chain, lengthened,
    loop_metrics,
};
use ferroband_api::ferroband::{ADDRESS_STATE_NAME, AddressState};
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};
use tracing::{debug, info, warn};

const WHAT: &str = "AddressState";
/// Shortest and longest pause after a failure.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Shortest duration of one watch; it is lengthened by up to a half.
const MIN_WATCH_TIME: Duration = Duration::from_secs(190);
/// How much later than it should a watch may end.
const END_TOLERANCE: Duration = Duration::from_secs(5);

/// The AddressState as last received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddressStateView {
    /// Whether the watch is alive, and thereby no restore of etcd is possible.
    pub connected: bool,
    /// `None` if it does not exist.
    pub state: Option<Arc<AddressState>>,
}

/// Keeps `view` current, and passes the revisions of lists and bookmarks to `revisions`. Never returns.
pub async fn watch_address_state(
    client: Client,
    revisions: Arc<RevisionWatch>,
    view: watch::Sender<AddressStateView>,
) {
    loop_metrics::count_restarts(WHAT, 0);
    let api: Api<AddressState> = Api::all(client.clone());
    let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
    loop {
        let ended = follow(&api, &revisions, &view, &mut retry).await;
        view.send_if_modified(|view| std::mem::take(&mut view.connected));
        let Err(e) = ended else { continue };
        if let Some(error) = retry.news(&e) {
            warn!(error, "cannot watch the AddressState, retrying; no new addresses are assigned");
        }
        loop_metrics::count_restarts(WHAT, 1);
        if matches!(&e, kube::Error::Api(status) if status.code == 404) {
            wait_for_crd(client.clone(), "addressstates.ferroband.io", true).await;
        }
        retry.pause().await;
    }
}

/// Lists the AddressState and follows its changes until the watch ends.
async fn follow(
    api: &Api<AddressState>,
    revisions: &RevisionWatch,
    view: &watch::Sender<AddressStateView>,
    retry: &mut Retry,
) -> kube::Result<()> {
    let selector = format!("metadata.name={ADDRESS_STATE_NAME}");
    let highest = revisions.highest();
    // Without a resourceVersion, the list is consistent: its revision is at least that of every earlier response.
    let list = with_timeout(api.list(&ListParams::default().fields(&selector))).await?;
    let revision = list.metadata.resource_version.unwrap_or_default();
    let state = list.items.into_iter().next().map(Arc::new);
    revisions.observe_current(highest, &revision, epoch(state.as_deref()));
    let seconds = lengthened(MIN_WATCH_TIME);
    let parameters =
        WatchParams::default().fields(&selector).timeout(u32::try_from(seconds.as_secs()).unwrap_or(290));
    let events = with_timeout(api.watch(&parameters, &revision)).await?;
    // Connected only now: a restore before the watch began would not end it.
    view.send_replace(AddressStateView { connected: true, state });
    if retry.succeeded() {
        info!("watch of the AddressState restored");
    }
    pin_mut!(events);
    while let Ok(Some(event)) = timeout(seconds + END_TOLERANCE, events.next()).await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                revisions.observe_epoch(object.spec.epoch());
                let state = Some(Arc::new(object));
                view.send_modify(|view| view.state = state);
            }
            WatchEvent::Deleted(_) => view.send_modify(|view| view.state = None),
            WatchEvent::Bookmark(bookmark) => revisions.observe_bookmark(&bookmark.metadata.resource_version),
            WatchEvent::Error(status) => {
                debug!(error = %error_chain(&kube::Error::Api(status)), "watch of the AddressState ended");
                return Ok(());
            }
        }
    }
    Ok(())
}

fn epoch(state: Option<&AddressState>) -> &str {
    state.map(|state| state.spec.epoch()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
