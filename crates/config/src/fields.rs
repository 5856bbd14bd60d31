//! Typed access to JSON objects that were written for Go programs, and the keys `pkey` and `membership`.
//!
//! Go's JSON decoder matches keys case-insensitively, ignores unknown keys and treats `null` as the zero value. Existing
//! configurations rely on all three.

use crate::ConfigError;
use ferroband_model::config_object::get_key;
use ferroband_model::{InvalidPKey, RequestedPKey};
use serde_json::{Map, Value};

/// Typed access to a JSON object, with the semantics of Go's decoder.
#[derive(Clone, Copy, Debug)]
pub struct ConfigFields<'a>(pub &'a Map<String, Value>);

impl<'a> ConfigFields<'a> {
    /// The value of `key` in any letter case. `null` counts as absent.
    pub fn get(self, key: &str) -> Option<&'a Value> {
        get_key(self.0, key)
    }

    /// The string at `key`; `None` when absent. Fails if the value has another type.
    pub fn text(self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        self.typed(key, "a string", Value::as_str)
    }

    /// Like [`Self::text`], for an integer.
    pub fn integer(self, key: &str) -> Result<Option<i64>, ConfigError> {
        self.typed(key, "an integer", Value::as_i64)
    }

    /// Like [`Self::text`], for an object.
    pub fn object(self, key: &str) -> Result<Option<ConfigFields<'a>>, ConfigError> {
        Ok(self.typed(key, "an object", Value::as_object)?.map(ConfigFields))
    }

    /// Like [`Self::text`], for a list.
    pub fn list(self, key: &str) -> Result<Option<&'a Vec<Value>>, ConfigError> {
        self.typed(key, "a list", Value::as_array)
    }

    /// The boolean at `key`; false when absent.
    pub fn flag(self, key: &str) -> Result<bool, ConfigError> {
        Ok(self.optional_flag(key)?.unwrap_or_default())
    }

    /// The boolean at `key`, which may also be the string `true` or `false`, as in plugin lists.
    pub fn optional_flag(self, key: &str) -> Result<Option<bool>, ConfigError> {
        let read = |value: &Value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        self.typed(key, "true or false", read)
    }

    /// The string at `key`; `None` when it is absent or empty.
    pub fn non_empty(self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        Ok(self.text(key)?.filter(|text| !text.is_empty()))
    }

    /// The key `mtu`. Zero and negative values mean that no MTU is set.
    pub(crate) fn mtu(self) -> Result<Option<u32>, ConfigError> {
        let mtu = self.integer("mtu")?.filter(|mtu| *mtu > 0);
        mtu.map(u32::try_from).transpose().map_err(|_| ConfigError::field("mtu", "a valid MTU"))
    }

    fn typed<T>(
        self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| ConfigError::field(key, expected))
    }
}

/// The P_Key, if one is requested. The default partition cannot be requested: it belongs to the subnet manager.
pub(crate) fn parse_pkey(fields: ConfigFields<'_>) -> Result<Option<RequestedPKey>, InvalidPKey> {
    fields.get("pkey").map_or(Ok(None), RequestedPKey::from_value)
}

/// The P_Key as the configuration spells it; `None` if it is absent or a number.
pub fn pkey_text(plugin: &Map<String, Value>) -> Option<&str> {
    ConfigFields(plugin).get("pkey")?.as_str()
}

/// Whether limited membership is requested.
pub(crate) fn parse_limited(fields: ConfigFields<'_>) -> Result<bool, ConfigError> {
    match fields.get("membership").and_then(Value::as_str) {
        None | Some("" | "full") => Ok(false),
        Some("limited") => Ok(true),
        Some(other) => Err(ConfigError::InvalidMembership { membership: other.to_owned() }),
    }
}
