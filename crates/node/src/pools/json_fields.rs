//! Reads JSON objects as Go programs do: keys in any case, and `null` like a missing value.
//!
//! The operator writes `IsRdma` while the plugin's documentation says `isRdma`; both are accepted.

use super::PoolProblem;
use serde_json::Value;
use std::collections::BTreeMap;

/// Collects the problems of one file while it is parsed.
#[derive(Debug)]
pub struct ProblemLog {
    file: String,
    pub problems: Vec<PoolProblem>,
}

impl ProblemLog {
    pub fn for_file(file: &str) -> Self {
        Self { file: file.to_owned(), problems: Vec::new() }
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    /// Adds a problem. `field` is the JSON path of the field with the problem, for example `resourceList[1]`,
    /// or is empty if the problem is with the whole file.
    pub fn add(&mut self, field: &str, cause: impl Into<String>) {
        let problem = PoolProblem { file: self.file.clone(), field: field.to_owned(), cause: cause.into() };
        self.problems.push(problem);
    }
}

/// Error for an invalid entry. The reason is in the problem log.
#[derive(Debug)]
pub struct InvalidEntry;

/// A JSON object while it is parsed. Each `take` method removes a known key; the keys that remain are unknown.
#[derive(Debug)]
pub struct JsonFields {
    path: String,
    remaining: BTreeMap<String, (String, Value)>,
}

impl JsonFields {
    /// Wraps `value`, which has the JSON path `path` in the file. Reports a problem if it is not an object.
    pub fn from_value(value: Value, path: &str, problems: &mut ProblemLog) -> Result<Self, InvalidEntry> {
        match value {
            Value::Object(map) => {
                let remaining = map.into_iter().map(|(key, value)| (key.to_lowercase(), (key, value)));
                Ok(Self { path: path.to_owned(), remaining: remaining.collect() })
            }
            other => {
                problems.add(path, format!("must be an object, not {}", describe_value(&other)));
                Err(InvalidEntry)
            }
        }
    }

    /// Returns the JSON path of `key` in the file, for messages.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether `key` has a value other than null.
    pub fn has(&self, key: &str) -> bool {
        self.remaining.get(&key.to_lowercase()).is_some_and(|(_, value)| !value.is_null())
    }

    /// Whether at least one of `keys` is present, even with null: the operator writes an empty list as null.
    pub fn contains_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.remaining.contains_key(&key.to_lowercase()))
    }

    /// Removes `key` and returns its value; `None` if it is missing or null.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.remaining.remove(&key.to_lowercase()).map(|(_, value)| value).filter(|value| !value.is_null())
    }

    pub fn take_string(
        &mut self,
        key: &str,
        problems: &mut ProblemLog,
    ) -> Result<Option<String>, InvalidEntry> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(string)) => Ok(Some(string)),
            Some(other) => Err(self.type_mismatch("a string", key, &other, problems)),
        }
    }

    pub fn take_bool(&mut self, key: &str, problems: &mut ProblemLog) -> Result<bool, InvalidEntry> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.type_mismatch("true or false", key, &other, problems)),
        }
    }

    /// Removes `key` and returns its value as a non-negative number.
    pub fn take_count(
        &mut self,
        key: &str,
        problems: &mut ProblemLog,
    ) -> Result<Option<usize>, InvalidEntry> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => Err(self.type_mismatch("a non-negative number", key, &value, problems)),
            },
        }
    }

    pub fn take_strings(
        &mut self,
        key: &str,
        problems: &mut ProblemLog,
    ) -> Result<Vec<String>, InvalidEntry> {
        let list = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(self.type_mismatch("a list of strings", key, &other, problems)),
        };
        let to_string = |value: Value| match value {
            Value::String(string) => Ok(string),
            other => Err(self.type_mismatch("a list of strings", key, &other, problems)),
        };
        list.into_iter().map(to_string).collect()
    }

    /// Reports the remaining keys as unknown. `known` lists the known keys for the message.
    pub fn report_unknown(self, known: &str, problems: &mut ProblemLog) {
        for (key, value) in self.remaining.values() {
            // Ignore nulls: Go programs write internal fields such as `SelectorObj` as null.
            if !value.is_null() {
                problems.add(&self.path_of(key), format!("unknown key, ignored; known keys: {known}"));
            }
        }
    }

    fn type_mismatch(
        &self,
        expected: &str,
        key: &str,
        value: &Value,
        problems: &mut ProblemLog,
    ) -> InvalidEntry {
        problems.add(&self.path_of(key), format!("must be {expected}, not {}", describe_value(value)));
        InvalidEntry
    }
}

/// Describes a JSON value for a message: its type if it is an object or a list, otherwise the value.
pub fn describe_value(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}
