//! Network configurations, read the way the plugins we replace read them.
//!
//! Those are written in Go, whose JSON decoder takes keys in any case, ignores keys it does not know and leaves
//! a field at its zero value on `null`. Existing configurations rely on all three.

use crate::{CniVersion, Error};
use serde_json::{Map, Value};

/// A plugin's configuration: the bytes as they came, and what they say.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    bytes: Vec<u8>,
    fields: Map<String, Value>,
}

impl PluginConfig {
    /// Read a configuration. `null` is an empty one, as it is for Go.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Error> {
        let fields: Option<Map<String, Value>> =
            serde_json::from_slice(&bytes).map_err(|source| Error::InvalidJson { source })?;
        Ok(Self { bytes, fields: fields.unwrap_or_default() })
    }

    /// The bytes as they came: what a delegated IPAM plugin must be given.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its fields.
    pub fn fields(&self) -> ConfigFields<'_> {
        ConfigFields(&self.fields)
    }

    /// Its fields, as they are.
    pub fn map(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The version of the specification it is written for.
    pub fn version(&self) -> Result<CniVersion, Error> {
        let text = self.fields().text("cniVersion")?.unwrap_or_default();
        CniVersion::parse(text).ok_or_else(|| Error::IncompatibleVersion { asked: text.to_owned() })
    }

    /// The network's name, which every command but VERSION must carry.
    pub fn name(&self) -> Result<&str, Error> {
        let name = self.fields().text("name")?.unwrap_or_default();
        if is_identifier(name) { Ok(name) } else { Err(Error::NetworkName { name: name.to_owned() }) }
    }
}

/// Letters, digits, `_`, `.` and `-`, the first a letter or digit: network names and container identifiers.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// An object of a configuration, with Go's manners.
#[derive(Clone, Copy, Debug)]
pub struct ConfigFields<'a>(pub &'a Map<String, Value>);

impl<'a> ConfigFields<'a> {
    /// The value under `key`. The exact spelling wins over others; `null` is as good as absent.
    pub fn get(self, key: &str) -> Option<&'a Value> {
        let exact = self.0.get(key);
        let found = exact.or_else(|| {
            self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
        });
        found.filter(|value| !value.is_null())
    }

    /// The text under `key`.
    pub fn text(self, key: &str) -> Result<Option<&'a str>, Error> {
        self.typed(key, "a string", Value::as_str)
    }

    /// The whole number under `key`.
    pub fn integer(self, key: &str) -> Result<Option<i64>, Error> {
        self.typed(key, "a whole number", Value::as_i64)
    }

    /// The object under `key`.
    pub fn object(self, key: &str) -> Result<Option<ConfigFields<'a>>, Error> {
        Ok(self.typed(key, "an object", Value::as_object)?.map(ConfigFields))
    }

    /// The list under `key`.
    pub fn list(self, key: &str) -> Result<Option<&'a Vec<Value>>, Error> {
        self.typed(key, "a list", Value::as_array)
    }

    /// The switch under `key`: a boolean or, as in lists of plugins, the word for one. Absent is off.
    pub fn flag(self, key: &str) -> Result<bool, Error> {
        let read = |value: &Value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        Ok(self.typed(key, "true or false", read)?.unwrap_or_default())
    }

    /// The type of the IPAM plugin, when one is asked for.
    pub fn ipam_type(self) -> Result<Option<&'a str>, Error> {
        let ipam = self.object("ipam")?;
        Ok(ipam.map(|ipam| ipam.text("type")).transpose()?.flatten().filter(|name| !name.is_empty()))
    }

    fn typed<T>(
        self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| Error::Field { field: key.to_owned(), wanted })
    }
}

#[cfg(test)]
mod tests;
