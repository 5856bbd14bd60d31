//! Spiderpool's `ipam` object.

use super::annotation::PoolPreference;
use crate::Error;
use crate::json_options::JsonOptions;
use crate::range::IpamWarning;
use ferroband_model::config_object::get_key;
use serde_json::{Map, Value};

/// The settings of a network's `ipam` object of type `spiderpool`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpiderpoolConfig {
    pub preference: PoolPreference,
    /// Options of the `ipam` object that have no effect.
    pub warnings: Vec<IpamWarning>,
}

/// Known options of Spiderpool's `ipam` object, in lower case.
const KEYS: [&str; 11] = [
    "type",
    "default_ipv4_ippool",
    "default_ipv6_ippool",
    "clean_gateway",
    "match_master_subnet",
    "ipam_unix_socket_path",
    "log_level",
    "log_file_path",
    "log_file_max_size",
    "log_file_max_age",
    "log_file_max_count",
];

impl SpiderpoolConfig {
    /// Whether the plugin configuration uses the Spiderpool IPAM.
    pub fn applies_to(config: &Map<String, Value>) -> bool {
        let kind = get_key(config, "ipam").and_then(|ipam| get_key(ipam.as_object()?, "type"));
        kind.and_then(Value::as_str) == Some("spiderpool")
    }

    /// Reads the `ipam` object of a plugin configuration.
    pub fn from_plugin(config: &Map<String, Value>) -> Result<Self, Error> {
        let Some(Value::Object(ipam)) = get_key(config, "ipam") else { return Err(Error::NoIpam) };
        let options = JsonOptions::new("", ipam);
        let mut warnings = Vec::new();
        options.warn_unknown(|key| KEYS.contains(&key), &mut warnings);
        let names = |key: &str| -> Result<Vec<String>, Error> {
            Ok(options.texts(key)?.into_iter().map(|(_, name)| name.to_owned()).collect())
        };
        let preference = PoolPreference {
            v4: names("default_ipv4_ippool")?,
            v6: names("default_ipv6_ippool")?,
            clean_gateway: options.flag("clean_gateway")?.unwrap_or_default(),
        };
        if options.flag("match_master_subnet")?.unwrap_or_default() {
            warnings.push(IpamWarning::Ignored {
                field: "match_master_subnet".into(),
                value: "true".into(),
                reason: "InfiniBand interfaces have no address to compare with",
            });
        }
        Ok(Self { preference, warnings })
    }
}
