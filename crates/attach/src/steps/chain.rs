//! Plugin chains: builds the standard input of each plugin of a CNI configuration list.

use crate::ipc::plan::{Attachment, PlanStep, StepKind};
use crate::protocol::config::ConfigFields;
use crate::protocol::{CniResult, CniVersion, Error};
use ferroband_model::config_object::{remove_key, set_key};
use serde_json::{Map, Value, json};

/// Standard input for one step: the user's configuration plus the keys that its configuration list adds.
///
/// `runtimeConfig` keeps only what the plugin's `capabilities` request; `capabilities` stays, as in libcni.
pub fn build_stdin(attachment: &Attachment, step: &PlanStep, previous: Option<&Value>) -> Vec<u8> {
    let mut config = step.config.clone();
    for (key, value) in [("name", &attachment.name), ("cniVersion", &attachment.cni_version)] {
        set_key(&mut config, key, json!(value));
    }
    // Remove a `prevResult` that the user wrote. The plugin would mistake it for an earlier plugin's result.
    remove_key(&mut config, "prevResult");
    if let Some(previous) = previous {
        config.insert("prevResult".to_owned(), previous.clone());
    }
    limit_to_capabilities(&mut config);
    // Serializing a map of values cannot fail.
    serde_json::to_vec(&config).unwrap_or_default()
}

/// Remove what the `capabilities` of a plugin do not request from its `runtimeConfig`.
pub(crate) fn limit_to_capabilities(config: &mut Map<String, Value>) {
    let Some(Value::Object(mut runtime_config)) = remove_key(config, "runtimeConfig") else { return };
    let capabilities = ConfigFields(config).object("capabilities").ok().flatten();
    runtime_config.retain(|key, _| {
        capabilities.is_some_and(|capabilities| capabilities.0.get(key) == Some(&Value::Bool(true)))
    });
    if !runtime_config.is_empty() {
        config.insert("runtimeConfig".to_owned(), Value::Object(runtime_config));
    }
}

/// Convert a plugin's result to the next plugin's `prevResult`. A result that already has the CNI version of
/// the configuration list is returned unchanged.
pub fn to_prev_result(result: &Value, version: CniVersion) -> Result<Value, Error> {
    match result.get("cniVersion").and_then(Value::as_str) {
        Some(text) if text == version.as_str() => Ok(result.clone()),
        None | Some("") if result.is_object() => {
            let mut result = result.clone();
            result["cniVersion"] = json!(version.as_str());
            Ok(result)
        }
        _ => CniResult::read(result, version)?.write(version),
    }
}

/// Parse a plugin configuration or a plugin list into an attachment in which every step runs a foreign binary.
pub fn parse_foreign(config: &Map<String, Value>, ifname: &str, default: bool) -> Result<Attachment, Error> {
    let fields = ConfigFields(config);
    let text = |key: &str| Ok::<_, Error>(fields.text(key)?.unwrap_or_default().to_owned());
    let plugins = match fields.list("plugins")? {
        Some(plugins) => plugins.iter().map(Value::as_object).collect(),
        None => Some(vec![config]),
    };
    let wrong =
        || Error::Field { field: "plugins".to_owned(), expected: "a list of plugins, each with a `type`" };
    let plugins = plugins.filter(|plugins| !plugins.is_empty()).ok_or_else(wrong)?;
    let mut steps = Vec::new();
    for plugin in plugins {
        ConfigFields(plugin).text("type")?.filter(|plugin| !plugin.is_empty()).ok_or_else(wrong)?;
        steps.push(PlanStep { config: plugin.clone(), kind: StepKind::Foreign });
    }
    let name = text("name")?;
    Ok(Attachment {
        network: name.clone(),
        name,
        cni_version: text("cniVersion")?,
        ifname: ifname.to_owned(),
        default,
        steps,
        unchecked: fields.flag("disableCheck")?,
        ..Attachment::default()
    })
}

impl Attachment {
    /// Parse `cni_version`. Fails if the version is not supported.
    pub fn version(&self) -> Result<CniVersion, Error> {
        let unknown = || Error::IncompatibleVersion { version: self.cni_version.clone() };
        CniVersion::parse(&self.cni_version).ok_or_else(unknown)
    }
}

impl PlanStep {
    /// The plugin's `type`; empty if missing.
    pub fn plugin(&self) -> &str {
        ConfigFields(&self.config).text("type").ok().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
