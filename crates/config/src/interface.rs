//! Keys of all plugins that create an interface.

use crate::{ConfigError, ConfigFields, PluginType};
use schemars::JsonSchema;
use serde_json::{Map, Value};

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
