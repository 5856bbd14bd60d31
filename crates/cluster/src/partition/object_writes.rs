//! Writes of cluster-scoped objects.

use crate::{ControllerContext, Error};
use ferroband_daemon::api_call::with_timeout;
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::json;

/// Deletes a cluster-scoped object. Succeeds if it does not exist.
pub async fn delete<K>(context: &ControllerContext, kind: &'static str, name: &str) -> Result<(), Error>
where
    K: Resource<Scope = kube::core::ClusterResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(context.client.clone());
    match with_timeout(api.delete(name, &DeleteParams::default())).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api("delete", format!("{kind} {name}"))(error)),
    }
}

/// Replaces the status of a cluster-scoped object. Succeeds if the object does not exist.
pub async fn patch_status<K>(
    context: &ControllerContext,
    kind: &'static str,
    name: &str,
    status: &(impl Serialize + Sync),
) -> Result<(), Error>
where
    K: Resource<Scope = kube::core::ClusterResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(context.client.clone());
    // Server-side apply removes fields that are no longer set.
    let object = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply("ferroband-cluster").force();
    let done = with_timeout(api.patch_status(name, &params, &Patch::Apply(&object))).await;
    match done {
        Ok(_) => Ok(()),
        // The object was deleted concurrently, so it needs no status.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api("patch the status of", format!("{kind} {name}"))(error)),
    }
}
