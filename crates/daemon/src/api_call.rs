//! Calls to the API server: the timeout, classification of failed calls, and partial writes of objects.

use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt::Debug, future::Future, io, time::Duration};
use tokio::time::timeout;

/// A kind that is known at compile time.
pub trait ApiKind: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static> ApiKind for K {}

/// Time limit of one API call. The outcome of a call that exceeds it is unknown. The client's own timeout is
/// several minutes, because it also applies to watches.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Class of a failed API call. It determines whether the caller retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// No response, or a temporary error: the same call may succeed later.
    Unavailable,
    /// The object does not exist.
    NotFound,
    /// The object already exists, or has another UID or resource version than the call expects.
    Conflict,
    /// The API server rejected the call and would reject it again.
    Rejected,
}

/// Runs an API call. Returns `kube::Error::Service` if there is no response within `CALL_TIMEOUT`.
pub async fn with_timeout<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(CALL_TIMEOUT, call).await {
        Ok(response) => response,
        Err(_) => {
            let timed_out =
                io::Error::new(io::ErrorKind::TimedOut, "no response from the API server in time");
            Err(kube::Error::Service(Box::new(timed_out)))
        }
    }
}

/// Classifies an error by its HTTP status. An error without a status, such as a timeout, counts as
/// unavailable.
pub fn classify(error: &kube::Error) -> ApiFailure {
    let kube::Error::Api(status) = error else { return ApiFailure::Unavailable };
    match status.code {
        404 => ApiFailure::NotFound,
        409 => ApiFailure::Conflict,
        429 | 500.. => ApiFailure::Unavailable,
        // The object of that name has a different UID than the call expects.
        422 if names_uid(status) => ApiFailure::Conflict,
        _ => ApiFailure::Rejected,
    }
}

fn names_uid(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

/// Applies `fields`, for example `{"spec": …}`, to the object `name`. Server-side apply creates the object if it does not
/// exist, removes fields that are no longer set, and takes over fields of other managers. Returns the whole object.
pub async fn apply<K: ApiKind>(api: &Api<K>, manager: &str, name: &str, fields: Value) -> kube::Result<K> {
    let (params, object) = (PatchParams::apply(manager).force(), complete::<K>(name, fields));
    with_timeout(api.patch(name, &params, &Patch::Apply(&object))).await
}

/// Replaces the fields of the status that `manager` has set. Fails if the object does not exist.
pub async fn apply_status<K: ApiKind>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    status: &impl Serialize,
) -> kube::Result<()> {
    let (params, object) =
        (PatchParams::apply(manager).force(), complete::<K>(name, json!({"status": status})));
    with_timeout(api.patch_status(name, &params, &Patch::Apply(&object))).await.map(drop)
}

/// Merges `patch` into the object `name`; null removes a field. Fails if the object does not exist.
pub async fn merge_patch<K: ApiKind>(api: &Api<K>, name: &str, patch: &Value) -> kube::Result<()> {
    // The whole patch is applied; only the response is limited to the metadata.
    with_timeout(api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
}

/// Adds type and name, which every applied object must contain.
fn complete<K: ApiKind>(name: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = json!(K::api_version(&()));
    fields["kind"] = json!(K::kind(&()));
    fields["metadata"]["name"] = json!(name);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn failures_are_classified_by_status() {
        let of = |code: u16, field: &str| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": "x", "message": "x", "details": {"causes": [{"field": field, "message": "x", "reason": "x"}]}});
            classify(&kube::Error::Api(serde_json::from_value(status).unwrap()))
        };
        assert_eq!(of(404, ""), ApiFailure::NotFound);
        assert_eq!(of(409, ""), ApiFailure::Conflict);
        assert_eq!(of(422, "metadata.uid"), ApiFailure::Conflict);
        assert_eq!(of(422, "metadata.annotations"), ApiFailure::Rejected);
        assert_eq!(of(403, ""), ApiFailure::Rejected);
        assert_eq!(of(503, ""), ApiFailure::Unavailable);
        let unreachable = kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(classify(&unreachable), ApiFailure::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn call_without_response_times_out() {
        let endless = with_timeout(std::future::pending::<kube::Result<()>>()).await;
        assert_eq!(classify(&endless.unwrap_err()), ApiFailure::Unavailable);
    }

    #[test]
    fn applied_object_has_type_and_name() {
        let object = complete::<ConfigMap>("a", json!({"metadata": {"labels": {"x": "y"}}, "data": {}}));
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {},
        });
        assert_eq!(object, expected);
    }
}
