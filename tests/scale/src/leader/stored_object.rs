//! An API object as text. Only its metadata is parsed, because the load test stores hundreds of megabytes.

use anyhow::{Context, Result};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct StoredObject {
    pub metadata: Map<String, Value>,
    /// The other fields, such as `spec` and `status`, unparsed.
    pub fields: BTreeMap<String, Box<RawValue>>,
}

/// How a patch changes the fields of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchMode {
    /// Server-side apply with force. A field of the patch replaces the whole field, which is enough for one manager per
    /// field.
    Apply,
    /// Server-side apply without force, by a manager that applies once. Adds values, and conflicts with other values.
    Add,
    /// JSON merge patch.
    Merge,
}

impl StoredObject {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(bytes).context("the object is no JSON object")?;
        let metadata = match fields.remove("metadata") {
            Some(metadata) => {
                serde_json::from_str(metadata.get()).context("the metadata is no JSON object")?
            }
            None => Map::new(),
        };
        Ok(Self { metadata, fields })
    }

    pub fn from_value(value: &Value) -> Result<Self> {
        Self::parse(&serde_json::to_vec(value)?)
    }

    /// Returns the object as JSON, or only its metadata, as a client may ask.
    pub fn render(&self, metadata_only: bool) -> String {
        let metadata = Value::Object(self.metadata.clone());
        if metadata_only {
            let kind = "PartialObjectMetadata";
            return json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata}).to_string();
        }
        let mut text = format!(r#"{{"metadata":{metadata}"#);
        for (name, value) in &self.fields {
            text.push_str(&format!(r#","{name}":{}"#, value.get()));
        }
        text.push('}');
        text
    }

    pub fn name(&self) -> &str {
        self.metadata.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn version(&self) -> u64 {
        let version = self.metadata.get("resourceVersion").and_then(Value::as_str);
        version.and_then(|version| version.parse().ok()).unwrap_or_default()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.get("labels")?.get(key)?.as_str()
    }

    /// Whether a patch in the mode [`PatchMode::Add`] has another value than the object.
    pub fn conflicts_with(&self, patch: &Self) -> bool {
        let parse = |value: &RawValue| serde_json::from_str::<Value>(value.get()).unwrap_or_default();
        let spec = |object: &Self| object.fields.get("spec").map(|spec| parse(spec));
        spec(self).zip(spec(patch)).is_some_and(|(now, patch)| differs(&now, &patch))
    }

    /// Applies a patch of the object, or of its status only. Returns whether anything changed.
    pub fn patch(&mut self, patch: Self, mode: PatchMode, status_only: bool) -> Result<bool> {
        let mut changed = false;
        for (name, value) in patch.fields {
            if matches!(name.as_str(), "apiVersion" | "kind") && self.fields.contains_key(&name)
                || (name == "status") != status_only && !matches!(name.as_str(), "apiVersion" | "kind")
            {
                continue;
            }
            let before = self.fields.get(&name);
            let value = match (mode, before) {
                (PatchMode::Merge | PatchMode::Add, Some(before)) => {
                    let mut merged: Value = serde_json::from_str(before.get())?;
                    merge(&mut merged, serde_json::from_str(value.get())?);
                    serde_json::value::to_raw_value(&merged)?
                }
                _ => value,
            };
            if before.is_none_or(|before| before.get() != value.get()) {
                changed = true;
                if name == "spec" {
                    let generation =
                        self.metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
                    self.metadata.insert("generation".into(), json!(generation + 1));
                }
                self.fields.insert(name, value);
            }
        }
        for name in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let Some(value) = patch.metadata.get(name).filter(|_| !status_only) else { continue };
            let before = self.metadata.get(name).cloned();
            merge(self.metadata.entry(name).or_insert(Value::Null), value.clone());
            changed |= before.as_ref() != self.metadata.get(name);
        }
        Ok(changed)
    }
}

/// Whether a value of `patch` is present in `now` with another content.
fn differs(now: &Value, patch: &Value) -> bool {
    match (now, patch) {
        (Value::Object(now), Value::Object(patch)) => {
            patch.iter().any(|(name, value)| now.get(name).is_some_and(|now| differs(now, value)))
        }
        _ => now != patch,
    }
}

/// JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        match value {
            Value::Null => drop(target.remove(&name)),
            value => merge(target.entry(name).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> StoredObject {
        StoredObject::from_value(&value).unwrap()
    }

    #[test]
    fn a_patch_changes_spec_or_status_and_counts_generations() {
        let mut stored = object(json!({"metadata": {"name": "a"}, "spec": {"x": 1}}));
        let patch =
            || object(json!({"kind": "K", "metadata": {"name": "a"}, "spec": {"x": 2}, "status": {"y": 1}}));
        assert!(stored.patch(patch(), PatchMode::Apply, false).unwrap());
        assert_eq!(stored.metadata["generation"], 1);
        assert!(!stored.fields.contains_key("status"));
        assert!(!stored.patch(patch(), PatchMode::Apply, false).unwrap(), "the same patch again");
        assert!(stored.patch(patch(), PatchMode::Apply, true).unwrap());
        let rendered: Value = serde_json::from_str(&stored.render(false)).unwrap();
        assert_eq!((&rendered["spec"]["x"], &rendered["status"]["y"]), (&json!(2), &json!(1)));
        let add = object(json!({"spec": {"n": {"a": 1}}}));
        assert!(!stored.conflicts_with(&add) && stored.patch(add.clone(), PatchMode::Add, false).unwrap());
        assert!(!stored.conflicts_with(&add));
        assert!(stored.conflicts_with(&object(json!({"spec": {"n": {"a": 2}}}))));
        let merge =
            object(json!({"metadata": {"labels": {"l": "v"}}, "spec": {"z": 3, "x": null, "n": null}}));
        assert!(stored.patch(merge, PatchMode::Merge, false).unwrap());
        assert_eq!((stored.fields["spec"].get(), stored.label("l")), (r#"{"z":3}"#, Some("v")));
    }
}
