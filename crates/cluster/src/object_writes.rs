//! Writes of API objects by the controllers.

use crate::Error;
use ferroband_daemon::{
    ApiKind,
    api_call::{ApiFailure, classify, with_timeout},
    apply, apply_status,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use serde::Serialize;
use serde_json::Value;

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

fn ignore_missing(result: kube::Result<()>) -> kube::Result<()> {
    result.or_else(|e| if classify(&e) == ApiFailure::NotFound { Ok(()) } else { Err(e) })
}

/// Returns kind and name of an object, as errors show them.
fn describe<K: ApiKind>(api: &Api<K>, name: &str) -> String {
    let namespace = api.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {namespace}{name}", K::kind(&()))
}
