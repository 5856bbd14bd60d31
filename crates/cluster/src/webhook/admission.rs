//! The API server's question and our answer (admission.k8s.io/v1).

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

/// The question.
#[derive(Debug, Deserialize)]
pub struct AdmissionReview {
    /// What is asked.
    pub request: AdmissionRequest,
}

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Names the question.
    pub uid: String,
    /// The object's kind.
    pub kind: AdmissionKind,
    /// The namespace it is created in; it may not stand in the object yet.
    #[serde(default)]
    pub namespace: String,
    /// The object as it would be stored.
    #[serde(default)]
    pub object: Value,
    /// The object as it is stored.
    #[serde(default)]
    pub old_object: Value,
}

/// The object's kind.
#[derive(Debug, Deserialize)]
pub struct AdmissionKind {
    /// Such as `SpiderMultusConfig`.
    pub kind: String,
}

/// The answer.
#[derive(Debug, Default, PartialEq)]
pub struct AdmissionResponse {
    /// A JSON patch (RFC 6902), one operation after the other.
    pub patch: Vec<Value>,
    /// Shown to whoever sent the object.
    pub warnings: Vec<String>,
    /// Why it is refused, if it is.
    pub denied: Option<String>,
}

impl AdmissionResponse {
    /// Put `value` at `path`, whose parts are plain keys.
    pub fn add_patch(&mut self, path: &[&str], value: Value) {
        let escaped: Vec<_> = path.iter().map(|part| part.replace('~', "~0").replace('/', "~1")).collect();
        self.patch.push(json!({"op": "add", "path": format!("/{}", escaped.join("/")), "value": value}));
    }

    /// The answer to the question `uid`.
    pub fn to_review(&self, uid: &str) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.denied.is_none()});
        if let Some(why) = &self.denied {
            response["status"] = json!({"message": why, "reason": "Invalid", "code": 422});
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
        let mut answer = AdmissionResponse::default();
        answer.add_patch(&["metadata", "labels", "a/b~c"], json!("d"));
        assert_eq!(answer.patch[0]["path"], "/metadata/labels/a~1b~0c");
        let told = answer.to_review("u");
        let patch: ByteString = serde_json::from_value(told["response"]["patch"].clone()).unwrap();
        assert!(serde_json::from_slice::<Vec<Value>>(&patch.0).unwrap() == answer.patch);
        answer.denied = Some("no".into());
        assert_eq!(
            answer.to_review("u")["response"],
            json!({"uid": "u", "allowed": false, "status": {"message": "no", "reason": "Invalid", "code": 422}})
        );
    }
}
