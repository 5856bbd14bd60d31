//! Reading JSON objects as Go programs do: keys in any casing, `null` for what is not there.
//!
//! The operator writes `IsRdma` where the plugin's own documentation says `isRdma`; both mean the same.

use super::PoolProblem;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where problems are noted while a file is read.
#[derive(Debug)]
pub struct ProblemLog {
    file: String,
    /// What has been noted.
    pub problems: Vec<PoolProblem>,
}

impl ProblemLog {
    /// Nothing wrong with `file` yet.
    pub fn for_file(file: &str) -> Self {
        Self { file: file.to_owned(), problems: Vec::new() }
    }

    /// The file that is read.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Note what is wrong with `field`.
    pub fn add(&mut self, field: &str, cause: impl Into<String>) {
        let problem = PoolProblem { file: self.file.clone(), field: field.to_owned(), cause: cause.into() };
        self.problems.push(problem);
    }
}

/// An entry that cannot be used; why has been noted.
#[derive(Debug)]
pub struct InvalidEntry;

/// An object being read: what is taken is gone, what is left is unknown.
#[derive(Debug)]
pub struct JsonFields {
    path: String,
    remaining: BTreeMap<String, (String, Value)>,
}

impl JsonFields {
    /// The object at `at`.
    pub fn from_value(value: Value, at: &str, notes: &mut ProblemLog) -> Result<Self, InvalidEntry> {
        match value {
            Value::Object(map) => {
                let left = map.into_iter().map(|(key, value)| (key.to_lowercase(), (key, value)));
                Ok(Self { path: at.to_owned(), remaining: left.collect() })
            }
            other => {
                notes.add(at, format!("must be an object, not {}", describe_value(&other)));
                Err(InvalidEntry)
            }
        }
    }

    /// The way to `key` from the top.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether `key` is there, with a value.
    pub fn has(&self, key: &str) -> bool {
        self.remaining.get(&key.to_lowercase()).is_some_and(|(_, value)| !value.is_null())
    }

    /// Whether any of `keys` is named, be it with a null: the operator writes an empty list so.
    pub fn contains_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.remaining.contains_key(&key.to_lowercase()))
    }

    /// The value of `key`.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.remaining.remove(&key.to_lowercase()).map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// A text.
    pub fn take_string(&mut self, key: &str, notes: &mut ProblemLog) -> Result<Option<String>, InvalidEntry> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.type_mismatch("a text", key, &other, notes)),
        }
    }

    /// A yes or no.
    pub fn take_bool(&mut self, key: &str, notes: &mut ProblemLog) -> Result<bool, InvalidEntry> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.type_mismatch("true or false", key, &other, notes)),
        }
    }

    /// A number that is not negative.
    pub fn take_count(&mut self, key: &str, notes: &mut ProblemLog) -> Result<Option<usize>, InvalidEntry> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => Err(self.type_mismatch("a number, 0 or more", key, &value, notes)),
            },
        }
    }

    /// A list of texts.
    pub fn take_strings(&mut self, key: &str, notes: &mut ProblemLog) -> Result<Vec<String>, InvalidEntry> {
        let list = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(self.type_mismatch("a list of texts", key, &other, notes)),
        };
        let text = |value: Value| match value {
            Value::String(text) => Ok(text),
            other => Err(self.type_mismatch("a list of texts", key, &other, notes)),
        };
        list.into_iter().map(text).collect()
    }

    /// Name what nobody asked for.
    pub fn report_unknown(self, known: &str, notes: &mut ProblemLog) {
        for (key, value) in self.remaining.values() {
            // A Go program leaves its private fields behind as nulls (`SelectorObj`).
            if !value.is_null() {
                notes.add(&self.path_of(key), format!("unknown, and ignored; known here: {known}"));
            }
        }
    }

    fn type_mismatch(&self, right: &str, key: &str, value: &Value, notes: &mut ProblemLog) -> InvalidEntry {
        notes.add(&self.path_of(key), format!("must be {right}, not {}", describe_value(value)));
        InvalidEntry
    }
}

/// The value in words.
pub fn describe_value(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}
