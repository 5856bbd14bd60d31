//! Network configurations, parsed like the plugins that Ferroband replaces.
//!
//! Those are written in Go, whose JSON decoder matches keys case-insensitively, ignores unknown keys and treats `null`
//! as the zero value. Existing configurations rely on all three.

use crate::protocol::{CniVersion, Error};
use ferroband_model::{ConfigObject, config_object};
use serde_json::{Map, Value};

/// A plugin's configuration: the original bytes and the parsed object.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    bytes: Vec<u8>,
    fields: Map<String, Value>,
}

impl PluginConfig {
    /// Parse a configuration. `null` counts as an empty configuration, as in Go.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Error> {
        let fields: Option<ConfigObject> =
            serde_json::from_slice(&bytes).map_err(|source| Error::InvalidJson { source })?;
        Ok(Self { bytes, fields: fields.unwrap_or_default().0 })
    }

    /// The original bytes, which a delegated IPAM plugin must get.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The parsed object, for typed access to its keys.
    pub fn fields(&self) -> ConfigFields<'_> {
        ConfigFields(&self.fields)
    }

    /// The parsed JSON object, with all keys as written.
    pub fn map(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Parse `cniVersion`, which is 0.1.0 when absent. Fails if the version is not supported.
    pub fn version(&self) -> Result<CniVersion, Error> {
        let text = self.fields().text("cniVersion")?.unwrap_or_default();
        CniVersion::parse(text).ok_or_else(|| Error::IncompatibleVersion { version: text.to_owned() })
    }

    /// The network name, required for every command but VERSION.
    pub fn name(&self) -> Result<&str, Error> {
        let name = self.fields().text("name")?.unwrap_or_default();
        if is_identifier(name) { Ok(name) } else { Err(Error::NetworkName { name: name.to_owned() }) }
    }
}

/// Whether `text` is a valid network name or container ID: letters, digits, `_`, `.` and `-`, starting with a letter or
/// digit.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Typed access to a JSON object, with the semantics of Go's decoder.
#[derive(Clone, Copy, Debug)]
pub struct ConfigFields<'a>(pub &'a Map<String, Value>);

impl<'a> ConfigFields<'a> {
    /// The value of `key` in any letter case. `null` counts as absent.
    pub fn get(self, key: &str) -> Option<&'a Value> {
        config_object::get_key(self.0, key)
    }

    /// The string at `key`; `None` when absent. Fails if the value has another type.
    pub fn text(self, key: &str) -> Result<Option<&'a str>, Error> {
        self.typed(key, "a string", Value::as_str)
    }

    /// Like [`Self::text`], for an integer.
    pub fn integer(self, key: &str) -> Result<Option<i64>, Error> {
        self.typed(key, "an integer", Value::as_i64)
    }

    /// Like [`Self::text`], for an object.
    pub fn object(self, key: &str) -> Result<Option<ConfigFields<'a>>, Error> {
        Ok(self.typed(key, "an object", Value::as_object)?.map(ConfigFields))
    }

    /// Like [`Self::text`], for a list.
    pub fn list(self, key: &str) -> Result<Option<&'a Vec<Value>>, Error> {
        self.typed(key, "a list", Value::as_array)
    }

    /// The boolean at `key`, which may also be the string `true` or `false`, as in plugin lists. False when
    /// absent.
    pub fn flag(self, key: &str) -> Result<bool, Error> {
        let read = |value: &Value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        Ok(self.typed(key, "true or false", read)?.unwrap_or_default())
    }

    /// `ipam.type`, if it is set.
    pub fn ipam_type(self) -> Result<Option<&'a str>, Error> {
        let ipam = self.object("ipam")?;
        Ok(ipam.map(|ipam| ipam.text("type")).transpose()?.flatten().filter(|name| !name.is_empty()))
    }

    fn typed<T>(
        self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| Error::Field { field: key.to_owned(), expected })
    }
}

#[cfg(test)]
mod tests;
