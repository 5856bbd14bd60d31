//! A plugin's configuration before it is passed to the plugin.

use crate::{ConfigFields, VALID_ATTACHMENTS_KEYS};
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

/// Keys that the daemon or the runtime sets for a single pod.
const POD_KEYS: [&str; 3] = ["runtimeConfig", "deviceID", "pciBusID"];

/// The capabilities that a plugin declares.
pub fn capabilities(plugin: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let declared = ConfigFields(plugin).object("capabilities").ok().flatten();
    let all = declared.into_iter().flat_map(|declared| declared.0);
    all.filter(|(_, is_on)| **is_on == Value::Bool(true)).map(|(name, _)| name.as_str())
}

/// The values that the runtime passes to plugins with the capability.
pub fn runtime_config(config: &Map<String, Value>) -> Option<&Value> {
    ConfigFields(config).get("runtimeConfig")
}

/// Set the values that the runtime passes to plugins with the capability.
pub fn set_runtime_config(plugin: &mut Map<String, Value>, values: Value) {
    set_key(plugin, "runtimeConfig", values);
}

/// Sets `runtimeConfig` of `plugin` to those `values` whose capability it declares. If there are none, an
/// existing `runtimeConfig` is kept, as in libcni.
pub fn grant_runtime_config(plugin: &mut Map<String, Value>, values: &Map<String, Value>) {
    let able = |key: &str| capabilities(plugin).any(|capability| capability == key);
    let granted = values.iter().filter(|(key, _)| able(key));
    let granted: Map<_, _> = granted.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !granted.is_empty() {
        set_runtime_config(plugin, Value::Object(granted));
    }
}

/// Adds the device to the configuration of `plugin`, under both keys that plugins use.
pub fn inject_device(plugin: &mut Map<String, Value>, device: &str) {
    for key in ["deviceID", "pciBusID"] {
        set_key(plugin, key, json!(device));
    }
}

/// The devices that `plugin` names: those that the daemon sets, or others if the user wrote them.
pub fn named_devices(plugin: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let fields = ConfigFields(plugin);
    let runtime = fields.object("runtimeConfig").ok().flatten();
    let named = [
        fields.non_empty("deviceID"),
        fields.non_empty("pciBusID"),
        runtime.map_or(Ok(None), |runtime| runtime.non_empty("deviceID")),
    ];
    named.into_iter().filter_map(|device| device.ok().flatten())
}

/// Merges the `cni-args` of the pod's networks annotation into `args.cni` of `plugin`. If both set a key, the
/// annotation's value is used.
pub fn merge_cni_args(plugin: &mut Map<String, Value>, args: &Map<String, Value>) {
    if args.is_empty() {
        return;
    }
    let take_object = |parent: &mut Map<String, Value>, key: &str| match remove_key(parent, key) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    };
    let mut all = take_object(plugin, "args");
    let mut cni = take_object(&mut all, "cni");
    args.iter().for_each(|(key, value)| set_key(&mut cni, key, value.clone()));
    set_key(&mut all, "cni", cni.into());
    set_key(plugin, "args", all.into());
}

/// Remove the keys that the daemon or the runtime set for a single pod.
pub fn remove_pod_values(plugin: &mut Map<String, Value>) {
    plugin.retain(|key, _| !POD_KEYS.contains(&key.as_str()));
}
