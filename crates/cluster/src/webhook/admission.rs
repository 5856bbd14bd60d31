//! AdmissionReview requests and responses (admission.k8s.io/v1).

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
pub struct AdmissionReview {
    pub request: AdmissionRequest,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Identifies the request; the response must contain the same UID.
    pub uid: String,
    pub kind: AdmissionKind,
    /// The object's namespace, which may be missing in the object itself.
    #[serde(default)]
    pub namespace: String,
    /// The object as it would be stored; null for a deletion.
    #[serde(default)]
    pub object: Value,
    /// The object as it is stored now; null for a creation.
    #[serde(default)]
    pub old_object: Value,
}

#[derive(Debug, Deserialize)]
pub struct AdmissionKind {
    /// Kind of the object, for example `SpiderMultusConfig`.
    pub kind: String,
}

#[derive(Debug, Default, PartialEq)]
pub struct AdmissionResponse {
    /// Operations of a JSON patch (RFC 6902).
    pub patch: Vec<Value>,
    /// Warnings that are shown to the client that sent the object.
    pub warnings: Vec<String>,
    /// Why the object is denied; `None` if it is admitted.
    pub denied: Option<String>,
}

impl AdmissionResponse {
    /// Adds a JSON patch operation that sets `value` at `path`. Each part of the path is escaped here.
    pub fn add_patch(&mut self, path: &[&str], value: Value) {
        let escaped: Vec<_> = path.iter().map(|part| part.replace('~', "~0").replace('/', "~1")).collect();
        self.patch.push(json!({"op": "add", "path": format!("/{}", escaped.join("/")), "value": value}));
    }

    /// Builds the AdmissionReview that answers the request `uid`.
    pub fn to_review(&self, uid: &str) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.denied.is_none()});
        if let Some(reason) = &self.denied {
            response["status"] = json!({"message": reason, "reason": "Invalid", "code": 422});
        } else if !self.patch.is_empty() {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(ByteString(json!(self.patch).to_string().into_bytes()));
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_base64_and_keys_are_escaped() {
        let mut response = AdmissionResponse::default();
        response.add_patch(&["metadata", "labels", "a/b~c"], json!("d"));
        assert_eq!(response.patch[0]["path"], "/metadata/labels/a~1b~0c");
        let review = response.to_review("u");
        let patch: ByteString = serde_json::from_value(review["response"]["patch"].clone()).unwrap();
        assert!(serde_json::from_slice::<Vec<Value>>(&patch.0).unwrap() == response.patch);
        response.denied = Some("no".into());
        assert_eq!(
            response.to_review("u")["response"],
            json!({"uid": "u", "allowed": false, "status": {"message": "no", "reason": "Invalid", "code": 422}})
        );
    }
}
