//! Watches API objects, and restarts the watch after errors.
//!
//! kube's own `StreamBackoff` is not used: it starts again with the shortest pause after every event, and the watcher
//! emits `Init` at the start of every attempt, so the pause would never grow during an outage.

use crate::{ApiKind, Retry, loop_metrics};
use futures::{StreamExt, pin_mut};
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use std::time::Duration;
use tracing::{info, warn};

/// Shortest and longest pause before a failed watch is restarted. Both are shorter than kube's (0.8 s and 30 s), because
/// a node daemon without caches cannot start pods.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Applies `map` to the object of a watch event.
pub fn map_event<K, T>(event: Event<K>, map: impl Fn(K) -> T) -> Event<T> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(map(object)),
        Event::Apply(object) => Event::Apply(map(object)),
        Event::Delete(object) => Event::Delete(map(object)),
    }
}

/// Selects the object `name` only.
pub fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// Watches the objects of `api` and passes the events to `apply`. Never returns; retries while the API server
/// is unavailable.
pub async fn watch_forever<K: ApiKind>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    mut apply: impl FnMut(Event<K>),
) {
    loop_metrics::count_restarts(what, 0);
    let events = watcher(api, config);
    pin_mut!(events);
    let mut retry = Retry::new(MIN_BACKOFF, MAX_BACKOFF);
    while let Some(event) = events.next().await {
        match event {
            // The watcher emits `Init` before the API server has responded. It does not end an outage.
            Ok(Event::Init) => apply(Event::Init),
            Ok(event) => {
                if retry.succeeded() {
                    info!(what, "watch of API objects restored");
                }
                apply(event);
            }
            Err(e) => {
                if let Some(error) = retry.news(&e) {
                    warn!(what, error, hint = hint(&e), "cannot watch API objects, retrying");
                }
                loop_metrics::count_restarts(what, 1);
                // The watcher restarts when it is polled again.
                retry.pause().await;
            }
        }
    }
}

fn hint(error: &watcher::Error) -> &'static str {
    let (watcher::Error::InitialListFailed(inner) | watcher::Error::WatchStartFailed(inner)) = error else {
        return "";
    };
    match inner {
        kube::Error::Api(status) if status.code == 404 => {
            "the custom resource definition is missing: run `ferroband crds apply`"
        }
        kube::Error::Api(status) if status.code == 403 => {
            "the daemon's ClusterRole or its binding is missing"
        }
        _ => "",
    }
}
