//! Writes of API objects by the controllers.

use crate::Error;
use ferroband_daemon::{
    ApiKind,
    api_call::{ApiFailure, classify, with_timeout},
    apply, apply_status,
};
use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use serde::Serialize;
use serde_json::Value;
use std::future::{Future, ready};

/// Number of objects of nodes that are read or written at the same time. With 10,000 nodes and 5 ms per write, all are
/// written in less than two seconds, and other clients of the API server still get their turn.
pub const MAX_PARALLEL_WRITES: usize = 32;

/// Field manager of the objects that the daemon writes.
pub const FIELD_MANAGER: &str = "ferroband-cluster";

/// Reads the object `name` of `api` from the API server, not from a cache. Returns `None` if it does not exist.
pub async fn get_object<K: ApiKind>(api: &Api<K>, name: &str) -> Result<Option<K>, Error> {
    with_timeout(api.get_opt(name)).await.map_err(Error::api("get", describe(api, name)))
}

/// Applies `fields` to the object `name` of `api`.
pub async fn apply_object<K: ApiKind>(api: &Api<K>, name: &str, fields: Value) -> Result<(), Error> {
    let applied = apply(api, FIELD_MANAGER, name, fields).await;
    applied.map(drop).map_err(Error::api("apply", describe(api, name)))
}

/// Replaces the status of the object `name` of `api`. Succeeds if the object does not exist: it was deleted
/// concurrently, so it needs no status.
pub async fn apply_object_status<K: ApiKind>(
    api: &Api<K>,
    name: &str,
    status: &impl Serialize,
) -> Result<(), Error> {
    let applied = apply_status(api, FIELD_MANAGER, name, status).await;
    ignore_missing(applied).map_err(Error::api("patch the status of", describe(api, name)))
}

/// Deletes the object `name` of `api`. Succeeds if it does not exist.
pub async fn delete_object<K: ApiKind>(api: &Api<K>, name: &str) -> Result<(), Error> {
    let deleted = with_timeout(api.delete(name, &DeleteParams::default())).await.map(drop);
    ignore_missing(deleted).map_err(Error::api("delete", describe(api, name)))
}

/// Deletes `object` of `api`, unless it was changed since it was read.
pub async fn delete_unchanged<K: ApiKind>(api: &Api<K>, object: &K) -> kube::Result<()> {
    let unchanged = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
    let params = DeleteParams::default().preconditions(unchanged);
    with_timeout(api.delete(&object.name_any(), &params)).await.map(drop)
}

/// Returns the result of a write, or `None` if the object was changed or deleted concurrently. The controller's next
/// pass uses its new state. `action` is the verb of the call, and `object` the kind and name of its object.
pub fn unless_outdated<T>(
    result: kube::Result<T>,
    action: &'static str,
    object: impl Into<String>,
) -> Result<Option<T>, Error> {
    match result {
        Ok(written) => Ok(Some(written)),
        Err(e) if matches!(classify(&e), ApiFailure::Conflict | ApiFailure::NotFound) => Ok(None),
        Err(e) => Err(Error::api(action, object)(e)),
    }
}

/// Makes the writes to the objects of many nodes, [`MAX_PARALLEL_WRITES`] at a time. A failed write does not stop the
/// others; all errors are returned together.
pub async fn write_all<W>(writes: impl IntoIterator<Item = W>) -> Result<(), Error>
where
    W: Future<Output = Result<(), Error>>,
{
    Error::from_all(collect_errors(MAX_PARALLEL_WRITES, writes).await)
}

/// Makes independent writes, `parallel` at a time, and returns the errors of those that failed.
pub async fn collect_errors<W>(parallel: usize, writes: impl IntoIterator<Item = W>) -> Vec<Error>
where
    W: Future<Output = Result<(), Error>>,
{
    let results = stream::iter(writes).buffer_unordered(parallel);
    results.filter_map(|result| ready(result.err())).collect().await
}

fn ignore_missing(result: kube::Result<()>) -> kube::Result<()> {
    result.or_else(|e| if classify(&e) == ApiFailure::NotFound { Ok(()) } else { Err(e) })
}

/// Returns kind and name of an object, as errors show them.
fn describe<K: ApiKind>(api: &Api<K>, name: &str) -> String {
    let namespace = api.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {namespace}{name}", K::kind(&()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_nodes_are_written_in_ten_seconds_and_a_failed_one_stops_none() {
        let (written, concurrent) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (written, concurrent) = (&written, &concurrent);
        let write = |number: usize| async move {
            assert!(concurrent.fetch_add(1, Ordering::Relaxed) < MAX_PARALLEL_WRITES);
            sleep(Duration::from_millis(5)).await;
            concurrent.fetch_sub(1, Ordering::Relaxed);
            if number.is_multiple_of(5000) {
                let refused = kube::Error::Service("refused".into());
                return Err(Error::api("patch", format!("NodePartitions n{number}"))(refused));
            }
            written.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let start = Instant::now();
        let error = write_all((0..10_000).map(write)).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(written.load(Ordering::Relaxed), 9998);
        assert!(error.to_string().contains("2 of the writes") && error.to_string().contains("n0"), "{error}");
    }
}
