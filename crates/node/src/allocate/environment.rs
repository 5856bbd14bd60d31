//! Environment variables that name the allocated devices.

use ferroband_model::ResourceName;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Returns `PCIDEVICE_<RESOURCE>` with the PCI addresses and `PCIDEVICE_<RESOURCE>_INFO` with `info` as JSON. As
/// upstream does, a hyphen in the resource name is kept. Shells cannot read such a variable, so a copy with
/// underscores is added.
pub fn device_variables(
    resource: &ResourceName,
    ids: &[String],
    info: Map<String, Value>,
) -> HashMap<String, String> {
    let name = format!("PCIDEVICE_{resource}").to_uppercase().replace(['.', '/'], "_");
    let info = Value::Object(info).to_string();
    let mut variables = HashMap::new();
    for name in [name.replace('-', "_"), name] {
        variables.insert(format!("{name}_INFO"), info.clone());
        variables.insert(name, ids.join(","));
    }
    variables
}
