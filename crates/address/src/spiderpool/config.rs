//! The `ipam` object of Spiderpool.

use super::annotation::Wish;
use crate::Error;
use crate::options::Options;
use crate::range::Warning;
use serde_json::{Map, Value};

/// What a network asks of Spiderpool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The pools that it names.
    pub wish: Wish,
    /// Options without effect here.
    pub warnings: Vec<Warning>,
}

/// The options of Spiderpool, in lower case.
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

impl Config {
    /// Whether the plugin's configuration leaves its addresses to Spiderpool.
    pub fn is_meant(config: &Map<String, Value>) -> bool {
        config.get("ipam").and_then(|ipam| ipam.get("type")).and_then(Value::as_str) == Some("spiderpool")
    }

    /// Reads the `ipam` object of a plugin's configuration.
    pub fn of_plugin(config: &Map<String, Value>) -> Result<Self, Error> {
        let Some(Value::Object(ipam)) = config.get("ipam") else { return Err(Error::NoIpam) };
        let options = Options::new("", ipam);
        let mut warnings = Vec::new();
        options.unknown(|key| KEYS.contains(&key), &mut warnings);
        let names = |key: &str| -> Result<Vec<String>, Error> {
            Ok(options.texts(key)?.into_iter().map(|(_, name)| name.to_owned()).collect())
        };
        let wish = Wish {
            v4: names("default_ipv4_ippool")?,
            v6: names("default_ipv6_ippool")?,
            clean_gateway: options.flag("clean_gateway")?.unwrap_or_default(),
        };
        if options.flag("match_master_subnet")?.unwrap_or_default() {
            warnings.push(Warning::Ignored {
                field: "match_master_subnet".into(),
                value: "true".into(),
                why: "InfiniBand functions have no address to compare with",
            });
        }
        Ok(Self { wish, warnings })
    }
}
