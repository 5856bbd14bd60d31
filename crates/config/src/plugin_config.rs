//! The configuration that a plugin gets on standard input.

use crate::{CniVersion, ConfigError, ConfigFields, PlainPods, PluginType, runtime_config, wrapper};
use ferroband_model::ConfigObject;
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// Configuration keys under which libcni sends the list of valid attachments. The second key is a mistake of
/// libcni's first release with GC, and libcni still sends it.
pub const VALID_ATTACHMENTS_KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// A plugin's configuration: the original bytes and the parsed object.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    bytes: Vec<u8>,
    fields: Map<String, Value>,
}

impl PluginConfig {
    /// Parse a configuration. `null` counts as an empty configuration, as in Go.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, ConfigError> {
        let fields: Option<ConfigObject> =
            serde_json::from_slice(&bytes).map_err(|source| ConfigError::InvalidJson { source })?;
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
    pub fn version(&self) -> Result<CniVersion, ConfigError> {
        let text = self.fields().text("cniVersion")?.unwrap_or_default();
        CniVersion::parse(text).ok_or_else(|| ConfigError::IncompatibleVersion { version: text.to_owned() })
    }

    /// The network name, required for every command but VERSION.
    pub fn name(&self) -> Result<&str, ConfigError> {
        let name = self.fields().text("name")?.unwrap_or_default();
        if is_identifier(name) { Ok(name) } else { Err(ConfigError::NetworkName { name: name.to_owned() }) }
    }

    /// The settings of a plugin that creates an interface.
    pub fn interface(&self) -> Result<InterfaceConfig<'_>, ConfigError> {
        InterfaceConfig::parse(&self.fields)
    }

    /// The result of the previous plugin of a chain, or of the ADD.
    pub fn prev_result(&self) -> Option<&Value> {
        self.fields().get("prevResult")
    }

    /// Values that the runtime passes to plugins with the capability.
    pub fn runtime_config(&self) -> Option<&Value> {
        runtime_config(&self.fields)
    }

    /// The networks that the meta plugin wraps. Invalid ones are ignored.
    pub fn wrapped_networks(&self) -> impl Iterator<Item = &Map<String, Value>> {
        wrapper::wrapped_networks(&self.fields)
    }

    /// The readiness indicator file of the default network, if there is one.
    pub fn readiness_file(&self) -> Result<Option<&str>, ConfigError> {
        wrapper::readiness_file(&self.fields)
    }

    /// Which pods are plain. `None` if the daemon plans every pod.
    pub fn plain_pods(&self) -> Option<PlainPods> {
        PlainPods::from_config(&self.fields)
    }

    /// Whether `disableGC` is set.
    pub fn is_gc_disabled(&self) -> Result<bool, ConfigError> {
        self.fields().flag("disableGC")
    }

    /// The list of valid attachments of a GC, as written.
    pub fn valid_attachments_value(&self) -> Option<&Value> {
        VALID_ATTACHMENTS_KEYS.iter().find_map(|key| self.fields().get(key))
    }

    /// The valid attachments of a GC as (container ID, interface name). A missing list is an error: it must not be
    /// treated as empty.
    pub fn valid_attachments(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let expected = "a list of objects with `containerID` and `ifname`";
        let wrong = || ConfigError::field(VALID_ATTACHMENTS_KEYS[0], expected);
        let list = self.valid_attachments_value().and_then(Value::as_array).ok_or_else(wrong)?;
        let attachment = |one: &Value| {
            let text = |key| ConfigFields(one.as_object()?).text(key).ok()?.map(str::to_owned);
            Some((text("containerID")?, text("ifname")?))
        };
        list.iter().map(attachment).collect::<Option<_>>().ok_or_else(wrong)
    }
}

/// Whether `text` is a valid network name or container ID: letters, digits, `_`, `.` and `-`, starting with a letter or
/// digit.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Also of `ipoib` and `ib-sriov`.
#[derive(Clone, Copy, Debug, JsonSchema)]
pub struct InterfaceConfig<'a> {
    /// IPAM: `whereabouts` or `spiderpool` (built in), or any IPAM plugin on the node except `dhcp`.
    #[schemars(rename = "ipam", with = "Option<Map<String, Value>>")]
    pub ipam_plugin: Option<&'a str>,
    /// Copied to the result by `ipoib`. `ib-sriov` copies the settings of the IPAM plugin.
    #[schemars(with = "Option<Map<String, Value>>")]
    dns: Option<&'a Value>,
}

/// The IPAM section of a plugin; `None` if it is absent or no object.
pub fn ipam_section(plugin: &Map<String, Value>) -> Option<&Map<String, Value>> {
    ConfigFields(plugin).object("ipam").ok()?.map(|ipam| ipam.0)
}

impl<'a> InterfaceConfig<'a> {
    /// Parse a configuration.
    pub fn parse(config: &'a Map<String, Value>) -> Result<Self, ConfigError> {
        let fields = ConfigFields(config);
        let ipam = fields.object("ipam")?;
        let ipam_plugin = ipam.map(|ipam| ipam.non_empty("type")).transpose()?.flatten();
        Ok(Self { ipam_plugin, dns: fields.get("dns") })
    }

    /// Whether the node daemon assigns the addresses.
    pub fn uses_daemon_ipam(self) -> bool {
        PluginType::is_daemon_ipam(self.ipam_plugin)
    }

    /// The DNS settings; empty if there are none.
    pub fn dns(self) -> Result<Map<String, Value>, ConfigError> {
        match self.dns {
            None => Ok(Map::new()),
            Some(Value::Object(dns)) => Ok(dns.clone()),
            Some(_) => Err(ConfigError::field("dns", "an object")),
        }
    }

    /// Fails if the IPAM plugin is `dhcp`, which does not work on InfiniBand.
    pub fn refuse_dhcp(self) -> Result<(), ConfigError> {
        if self.ipam_plugin == Some("dhcp") { Err(ConfigError::Dhcp) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
