//! JSON patch (RFC 6902), as the API server's library executes it.

use super::stored_object::StoredObject;
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Applies the operations to the object. Returns `None` if a `test` fails, which leaves the object unchanged.
pub fn apply_operations(object: &StoredObject, operations: &[u8]) -> Result<Option<StoredObject>> {
    let operations: Vec<Value> = serde_json::from_slice(operations).context("the patch is no list")?;
    let mut document: Value = serde_json::from_str(&object.render(false))?;
    for operation in &operations {
        let text =
            |name: &str| operation[name].as_str().with_context(|| format!("an operation has no `{name}`"));
        let (kind, path) = (text("op")?, text("path")?);
        let (parent, name) = path.rsplit_once('/').with_context(|| format!("path {path} is not absolute"))?;
        let name = name.replace("~1", "/").replace("~0", "~");
        match kind {
            // A test for null succeeds if the field is absent.
            "test" if document.pointer(path).unwrap_or(&Value::Null) == &operation["value"] => {}
            "test" => return Ok(None),
            "add" | "replace" | "remove" => {
                let Some(Value::Object(parent)) = document.pointer_mut(parent) else { return Ok(None) };
                match kind {
                    "remove" => drop(parent.remove(&name)),
                    _ => drop(parent.insert(name, operation["value"].clone())),
                }
            }
            other => bail!("operation {other} is not supported"),
        }
    }
    StoredObject::from_value(&document).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_added_unless_one_of_them_exists() {
        let object =
            json!({"metadata": {"name": "a", "labels": {}}, "spec": {"entries": {"1": {"pod": "x"}}}});
        let object = StoredObject::from_value(&object).unwrap();
        let add = |offset: &str| {
            let path = format!("/spec/entries/{offset}");
            let label = "/metadata/labels/a.b~1c";
            let operations = json!([{"op": "test", "path": path, "value": null}, {"op": "add", "path": path, "value": 5},
                {"op": "add", "path": label, "value": ""}]);
            apply_operations(&object, operations.to_string().as_bytes()).unwrap()
        };
        let patched = add("2").unwrap();
        assert_eq!(patched.fields["spec"].get(), r#"{"entries":{"1":{"pod":"x"},"2":5}}"#);
        assert_eq!(patched.label("a.b/c"), Some(""));
        assert!(add("1").is_none());
        assert!(
            apply_operations(&object, br#"[{"op": "add", "path": "/status/x", "value": 1}]"#)
                .unwrap()
                .is_none()
        );
        assert!(apply_operations(&object, b"{}").is_err());
    }
}
