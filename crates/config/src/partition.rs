//! The keys `pkey` and `membership`.

use crate::{ConfigError, ConfigFields};
use ferroband_model::{InvalidPKey, RequestedPKey};
use serde_json::{Map, Value};

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
