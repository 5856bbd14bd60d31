//! Partial writes of objects. Server-side apply creates an object if it does not exist, and removes fields that are no
//! longer set.

use crate::{ApiKind, api_call::with_timeout};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

/// Applies `fields`, for example `{"spec": …}`, to the object `name`. Takes over fields of other managers. Returns the
/// whole object.
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
    fn applied_object_has_type_and_name() {
        let object = complete::<ConfigMap>("a", json!({"metadata": {"labels": {"x": "y"}}, "data": {}}));
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {},
        });
        assert_eq!(object, expected);
    }
}
