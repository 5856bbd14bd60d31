//! Reads JSON objects as Go's encoding/json does: keys are case-insensitive and `null` means absent.

use crate::Error;
use crate::range::IpamWarning;
use ferroband_model::config_object::get_key;
use serde_json::{Map, Value};

/// A JSON object and its path in the configuration.
pub(crate) struct JsonOptions<'a> {
    path: String,
    object: &'a Map<String, Value>,
}

impl<'a> JsonOptions<'a> {
    pub(crate) fn new(path: impl Into<String>, object: &'a Map<String, Value>) -> Self {
        Self { path: path.into(), object }
    }

    /// Reads a list element as an object. Returns an error if the element has another type.
    pub(crate) fn from_element(path: String, value: &'a Value) -> Result<Self, Error> {
        match value {
            Value::Object(object) => Ok(Self::new(path, object)),
            other => Err(wrong_type(path, "an object", other)),
        }
    }

    /// Returns the path of `key` from the top-level object, for error messages.
    pub(crate) fn field_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'a Value> {
        get_key(self.object, key)
    }

    /// Reads a string. An empty string counts as absent.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(other) => Err(wrong_type(self.field_path(key), "a string", other)),
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(wrong_type(self.field_path(key), "true or false", other)),
        }
    }

    pub(crate) fn list(&self, key: &str) -> Result<&'a [Value], Error> {
        match self.value(key) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(wrong_type(self.field_path(key), "a list", other)),
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<(String, &'a str)>, Error> {
        let text = |(position, value): (usize, &'a Value)| {
            let field = format!("{}[{position}]", self.field_path(key));
            match value {
                Value::String(text) => Ok((field, text.as_str())),
                other => Err(wrong_type(field, "a string", other)),
            }
        };
        self.list(key)?.iter().enumerate().map(text).collect()
    }

    pub(crate) fn objects(&self, key: &str) -> Result<Vec<Self>, Error> {
        let object =
            |(position, value)| Self::from_element(format!("{}[{position}]", self.field_path(key)), value);
        self.list(key)?.iter().enumerate().map(object).collect()
    }

    /// Adds a warning for every key whose lower-case form is not `known`.
    pub(crate) fn warn_unknown(&self, known: impl Fn(&str) -> bool, warnings: &mut Vec<IpamWarning>) {
        let unknown = self.object.keys().filter(|key| !known(&key.to_lowercase()));
        warnings.extend(unknown.map(|written| IpamWarning::UnknownKey(self.field_path(written))));
    }
}

fn wrong_type(field: String, expected: &'static str, found: &Value) -> Error {
    Error::WrongType { field, expected, found: found.to_string() }
}
