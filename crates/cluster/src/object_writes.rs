//! Writes of API objects by the controllers.

use crate::Error;
use ferroband_daemon::{
    AppliedKind,
    api_call::{ApiFailure, classify, with_timeout},
    apply, apply_status,
};
use kube::{Api, api::DeleteParams};
use serde::Serialize;
use serde_json::Value;

/// Field manager of the objects that the daemon writes.
pub const FIELD_MANAGER: &str = "ferroband-cluster";

/// Applies `fields` to the object `name` of `api`.
pub async fn apply_object<K: AppliedKind>(api: &Api<K>, name: &str, fields: Value) -> Result<(), Error> {
    let applied = apply(api, FIELD_MANAGER, name, fields).await;
    applied.map(drop).map_err(Error::api("apply", describe(api, name)))
}

/// Replaces the status of the object `name` of `api`. Succeeds if the object does not exist: it was deleted
/// concurrently, so it needs no status.
pub async fn apply_object_status<K: AppliedKind>(
    api: &Api<K>,
    name: &str,
    status: &impl Serialize,
) -> Result<(), Error> {
    let applied = apply_status(api, FIELD_MANAGER, name, status).await;
    ignore_missing(applied).map_err(Error::api("patch the status of", describe(api, name)))
}

/// Deletes the object `name` of `api`. Succeeds if it does not exist.
pub async fn delete_object<K: AppliedKind>(api: &Api<K>, name: &str) -> Result<(), Error> {
    let deleted = with_timeout(api.delete(name, &DeleteParams::default())).await.map(drop);
    ignore_missing(deleted).map_err(Error::api("delete", describe(api, name)))
}

fn ignore_missing(result: kube::Result<()>) -> kube::Result<()> {
    result.or_else(|e| if classify(&e) == ApiFailure::NotFound { Ok(()) } else { Err(e) })
}

/// Returns kind and name of an object, as errors show them.
fn describe<K: AppliedKind>(api: &Api<K>, name: &str) -> String {
    let namespace = api.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {namespace}{name}", K::kind(&()))
}
