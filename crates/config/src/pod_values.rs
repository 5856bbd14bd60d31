//! Values of a single pod, which the daemon or the runtime adds to the configuration of a plugin.

use crate::ConfigFields;
use ferroband_model::config_object::{remove_key, set_key};
use serde_json::{Map, Value, json};

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
