//! A plugin's configuration before it is passed to the plugin.

use crate::{ConfigFields, VALID_ATTACHMENTS_KEYS, capabilities};
use ferroband_model::config_object::{remove_key, set_key};
use serde_json::{Map, Value, json};

/// The `type` of a plugin; empty if it has none.
pub fn plugin_name(plugin: &Map<String, Value>) -> &str {
    ConfigFields(plugin).text("type").ok().flatten().unwrap_or_default()
}

/// The `name` of a plugin's network; empty if it has none.
pub fn network_name(plugin: &Map<String, Value>) -> &str {
    ConfigFields(plugin).text("name").ok().flatten().unwrap_or_default()
}

/// The standard input of a plugin: its configuration with the name and CNI version of its network and the result of
/// the previous plugin.
pub fn plugin_stdin(
    plugin: &Map<String, Value>,
    name: &str,
    cni_version: &str,
    previous: Option<&Value>,
) -> Vec<u8> {
    let mut config = plugin.clone();
    set_key(&mut config, "name", json!(name));
    set_key(&mut config, "cniVersion", json!(cni_version));
    // Remove a `prevResult` that the user wrote. The plugin would mistake it for an earlier plugin's result.
    remove_key(&mut config, "prevResult");
    if let Some(previous) = previous {
        config.insert("prevResult".to_owned(), previous.clone());
    }
    limit_to_capabilities(&mut config);
    // Serializing a map of values cannot fail.
    serde_json::to_vec(&config).unwrap_or_default()
}

/// Remove the values of `runtimeConfig` for which the plugin does not declare the capability.
pub fn limit_to_capabilities(plugin: &mut Map<String, Value>) {
    let Some(Value::Object(mut runtime_config)) = remove_key(plugin, "runtimeConfig") else { return };
    runtime_config.retain(|key, _| capabilities(plugin).any(|capability| capability == key));
    if !runtime_config.is_empty() {
        plugin.insert("runtimeConfig".to_owned(), Value::Object(runtime_config));
    }
}

/// Set the list of valid attachments of a GC.
pub fn set_valid_attachments(plugin: &mut Map<String, Value>, valid: &Value) {
    plugin.extend(VALID_ATTACHMENTS_KEYS.iter().map(|key| ((*key).to_owned(), valid.clone())));
}
