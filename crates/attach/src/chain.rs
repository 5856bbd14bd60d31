//! Chains: what each plugin of a list is given on standard input.

use crate::config::ConfigFields;
use crate::plan::{Attachment, PlanStep, StepKind};
use crate::{CniResult, CniVersion, Error};
use serde_json::{Map, Value, json};

/// Standard input for one step: its configuration as the user wrote it, with what the list adds.
///
/// `runtimeConfig` keeps only what the plugin's `capabilities` ask for; `capabilities` stays, as libcni leaves it.
pub fn build_stdin(attachment: &Attachment, step: &PlanStep, previous: Option<&Value>) -> Vec<u8> {
    let mut config = step.config.clone();
    for (key, value) in [("name", &attachment.name), ("cniVersion", &attachment.cni_version)] {
        config.retain(|present, _| !present.eq_ignore_ascii_case(key));
        config.insert(key.to_owned(), json!(value));
    }
    // One that the user wrote would be taken for an earlier plugin's.
    config.retain(|present, _| !present.eq_ignore_ascii_case("prevResult"));
    if let Some(previous) = previous {
        config.insert("prevResult".to_owned(), previous.clone());
    }
    limit_to_capabilities(&mut config);
    // Maps of values have no way to fail.
    serde_json::to_vec(&config).unwrap_or_default()
}

fn limit_to_capabilities(config: &mut Map<String, Value>) {
    let Some(Value::Object(mut given)) = config.remove("runtimeConfig") else { return };
    let asked = ConfigFields(config).object("capabilities").ok().flatten();
    given.retain(|key, _| asked.is_some_and(|asked| asked.0.get(key) == Some(&Value::Bool(true))));
    if !given.is_empty() {
        config.insert("runtimeConfig".to_owned(), Value::Object(given));
    }
}

/// A plugin's result as the next one's `prevResult`: unchanged when it is of the list's version already.
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

/// The network that a configuration of one plugin, or a list of plugins, describes: all of it by foreign binaries.
pub fn parse_foreign(config: &Map<String, Value>, ifname: &str, default: bool) -> Result<Attachment, Error> {
    let fields = ConfigFields(config);
    let text = |key: &str| Ok::<_, Error>(fields.text(key)?.unwrap_or_default().to_owned());
    let plugins = match fields.list("plugins")? {
        Some(plugins) => plugins.iter().map(Value::as_object).collect(),
        None => Some(vec![config]),
    };
    let wrong =
        || Error::Field { field: "plugins".to_owned(), wanted: "a list of plugins, each with a `type`" };
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
    /// The version of its configuration.
    pub fn version(&self) -> Result<CniVersion, Error> {
        let unknown = || Error::IncompatibleVersion { asked: self.cni_version.clone() };
        CniVersion::parse(&self.cni_version).ok_or_else(unknown)
    }
}

impl PlanStep {
    /// The plugin's `type`; empty when there is none, which no binary is called.
    pub fn plugin(&self) -> &str {
        ConfigFields(&self.config).text("type").ok().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
