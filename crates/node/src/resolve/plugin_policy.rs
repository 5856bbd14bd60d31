//! Which CNI plugins may be executed for a network. A plugin is a program that runs as root on the node, and the author
//! of a NetworkAttachmentDefinition chooses it.

use super::NetworkAccessPolicy;
use ferroband_api::{annotation::NetworkSelection, cncf::NetworkConfig};
use ferroband_config::{PluginType, ipam_section, plugin_name};
use ferroband_model::{Fault, FaultCode};
use std::collections::BTreeSet;

/// CNI plugins of networks outside of trusted namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PluginPolicy {
    /// Every plugin that is installed on the node, as with Multus.
    #[default]
    Any,
    /// The plugins that Ferroband includes, and these.
    Listed(BTreeSet<String>),
}

impl PluginPolicy {
    /// Whether a plugin of this type may be executed.
    fn allows(&self, plugin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(listed) => {
                let built_in = PluginType::from_name(plugin).is_some_and(|built_in| !built_in.is_meta());
                built_in || listed.contains(plugin)
            }
        }
    }
}

impl NetworkAccessPolicy {
    /// Returns a fault if the network uses a plugin that it may not use. The configuration may come from the network's
    /// definition or from a file that the definition selects by name.
    pub fn check_plugins(&self, selection: &NetworkSelection, config: &NetworkConfig) -> Result<(), Fault> {
        if self.tenants.is_trusted(&selection.namespace) {
            return Ok(());
        }
        let Some(plugin) = plugin_types(config).find(|plugin| !self.plugins.allows(plugin)) else {
            return Ok(());
        };
        Err(Fault::new(
            FaultCode::InvalidConfig,
            format!("network {}", selection.display_name()),
            format!(
                "it uses the CNI plugin {plugin:?}, but networks in namespace {} may only use listed plugins \
                 (networks.plugins: listed)",
                selection.namespace
            ),
            "use a plugin of Ferroband, ask the administrator to list the plugin, or have the network created in a \
             trusted namespace",
        ))
    }
}

/// Returns the types of all plugins of a network, and of their IPAM plugins.
pub fn plugin_types(config: &NetworkConfig) -> impl Iterator<Item = &str> {
    config
        .plugins
        .iter()
        .flat_map(|plugin| [Some(plugin), ipam_section(plugin)])
        .flatten()
        .map(plugin_name)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
