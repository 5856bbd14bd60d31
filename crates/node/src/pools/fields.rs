//! Reading JSON objects as Go programs do: keys in any casing, `null` for what is not there.
//!
//! The operator writes `IsRdma` where the plugin's own documentation says `isRdma`; both mean the same.

use super::Problem;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where problems are noted while a file is read.
#[derive(Debug)]
pub struct Notes {
    file: String,
    /// What has been noted.
    pub problems: Vec<Problem>,
}

impl Notes {
    /// Nothing wrong with `file` yet.
    pub fn on(file: &str) -> Self {
        Self { file: file.to_owned(), problems: Vec::new() }
    }

    /// The file that is read.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Note what is wrong with `field`.
    pub fn note(&mut self, field: &str, cause: impl Into<String>) {
        let problem = Problem { file: self.file.clone(), field: field.to_owned(), cause: cause.into() };
        self.problems.push(problem);
    }
}

/// An entry that cannot be used; why has been noted.
#[derive(Debug)]
pub struct Refused;

/// An object being read: what is taken is gone, what is left is unknown.
#[derive(Debug)]
pub struct Fields {
    at: String,
    left: BTreeMap<String, (String, Value)>,
}

impl Fields {
    /// The object at `at`.
    pub fn of(value: Value, at: &str, notes: &mut Notes) -> Result<Self, Refused> {
        match value {
            Value::Object(map) => {
                let left = map.into_iter().map(|(key, value)| (key.to_lowercase(), (key, value)));
                Ok(Self { at: at.to_owned(), left: left.collect() })
            }
            other => {
                notes.note(at, format!("must be an object, not {}", kind(&other)));
                Err(Refused)
            }
        }
    }

    /// The way to `key` from the top.
    pub fn way(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// Whether `key` is there, with a value.
    pub fn has(&self, key: &str) -> bool {
        self.left.get(&key.to_lowercase()).is_some_and(|(_, value)| !value.is_null())
    }

    /// Whether any of `keys` is named, be it with a null: the operator writes an empty list so.
    pub fn names_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.left.contains_key(&key.to_lowercase()))
    }

    /// The value of `key`.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(&key.to_lowercase()).map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// A text.
    pub fn text(&mut self, key: &str, notes: &mut Notes) -> Result<Option<String>, Refused> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.not_a("a text", key, &other, notes)),
        }
    }

    /// A yes or no.
    pub fn flag(&mut self, key: &str, notes: &mut Notes) -> Result<bool, Refused> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.not_a("true or false", key, &other, notes)),
        }
    }

    /// A number that is not negative.
    pub fn count(&mut self, key: &str, notes: &mut Notes) -> Result<Option<usize>, Refused> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => Err(self.not_a("a number, 0 or more", key, &value, notes)),
            },
        }
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &str, notes: &mut Notes) -> Result<Vec<String>, Refused> {
        let list = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(self.not_a("a list of texts", key, &other, notes)),
        };
        let text = |value: Value| match value {
            Value::String(text) => Ok(text),
            other => Err(self.not_a("a list of texts", key, &other, notes)),
        };
        list.into_iter().map(text).collect()
    }

    /// Name what nobody asked for.
    pub fn done(self, known: &str, notes: &mut Notes) {
        for (key, value) in self.left.values() {
            // A Go program leaves its private fields behind as nulls (`SelectorObj`).
            if !value.is_null() {
                notes.note(&self.way(key), format!("unknown, and ignored; known here: {known}"));
            }
        }
    }

    fn not_a(&self, right: &str, key: &str, value: &Value, notes: &mut Notes) -> Refused {
        notes.note(&self.way(key), format!("must be {right}, not {}", kind(value)));
        Refused
    }
}

/// The value in words.
pub fn kind(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}
