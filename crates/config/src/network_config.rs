//! Parsing of a network's CNI configuration.

use crate::{CniVersion, ConfigError, ConfigFields, plugin_name};
use ferroband_model::{
    ConfigObject, Fault, FaultCode,
    config_object::{get_key, remove_key, set_key},
};
use serde_json::{Map, Value};

/// What is wrong with the configuration of a network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkConfigError {
    /// The configuration is not a JSON object.
    #[error("the configuration of network {network} is not a JSON object")]
    InvalidJson {
        /// The network, `<namespace>/<name>`.
        network: String,
        /// What the JSON decoder rejected, and where.
        source: serde_json::Error,
    },
    /// A field of the configuration is missing or invalid.
    #[error("the configuration of network {network}: {field} {problem}")]
    Field {
        /// The network, `<namespace>/<name>`.
        network: String,
        /// Path of the field in the configuration, for example `plugins[0].type`.
        field: String,
        /// The rest of the sentence that starts with the field, for example `must be set`.
        problem: &'static str,
    },
}

impl NetworkConfigError {
    /// Converts the error to a fault with a remedy for the user.
    pub fn fault(&self) -> Fault {
        let (code, network, cause) = match self {
            Self::InvalidJson { network, source } => {
                (FaultCode::Undecodable, network, format!("{self}: {source}"))
            }
            Self::Field { network, .. } => (FaultCode::InvalidConfig, network, self.to_string()),
        };
        let remedy = "correct spec.config of its NetworkAttachmentDefinition";
        Fault::new(code, format!("network {network}"), cause, remedy)
    }
}

/// A CNI configuration or configuration list, normalized to a list and otherwise unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// CNI network name: `name` of the configuration, or the name of the NetworkAttachmentDefinition.
    pub name: String,
    /// CNI version; `0.1.0` if the configuration names none, as the CNI specification requires.
    pub cni_version: String,
    /// The plugins in order, each with every key the user wrote, in the letter case of the user. Of equal keys
    /// there is one only. A list's `name` and `cniVersion` are added when the
    /// plugins run.
    pub plugins: Vec<Map<String, Value>>,
    /// `disableCheck`: the plugins are not called for CHECK.
    pub disable_check: bool,
    /// `disableGC`: the plugins are not called for GC.
    pub disable_gc: bool,
    /// The whole configuration as written, with `name` filled in.
    pub whole: Map<String, Value>,
}

impl NetworkConfig {
    /// Parses a configuration. `network` identifies it in error messages; `name` is used if it has none.
    pub fn parse(network: &str, text: &str, name: &str) -> Result<Self, NetworkConfigError> {
        let whole = serde_json::from_str(text)
            .map_err(|source| NetworkConfigError::InvalidJson { network: network.into(), source })?;
        Self::from_object(network, whole, name)
    }

    fn from_object(network: &str, whole: ConfigObject, name: &str) -> Result<Self, NetworkConfigError> {
        let ConfigObject(mut whole) = whole;
        let wrong = |field: &str, problem| NetworkConfigError::Field {
            network: network.into(),
            field: field.into(),
            problem,
        };
        let name = match get_key(&whole, "name") {
            None => name.to_owned(),
            Some(Value::String(written)) if written.is_empty() => name.to_owned(),
            Some(Value::String(written)) => written.clone(),
            Some(_) => return Err(wrong("name", "must be a string")),
        };
        set_key(&mut whole, "name", name.clone().into());
        let has_type = |plugin: &Map<String, Value>| !plugin_name(plugin).is_empty();
        let plugins = if has_type(&whole) {
            vec![whole.clone()]
        } else {
            let plugins = match get_key(&whole, "plugins") {
                Some(Value::Array(plugins)) if !plugins.is_empty() => plugins,
                Some(Value::Array(_)) => return Err(wrong("plugins", "must not be empty")),
                Some(_) => return Err(wrong("plugins", "must be a list")),
                None => return Err(wrong("type", "or plugins must be set")),
            };
            let plugin = |(position, value): (usize, &Value)| match value {
                Value::Object(plugin) if has_type(plugin) => Ok(plugin.clone()),
                Value::Object(_) => Err(wrong(&format!("plugins[{position}].type"), "must be set")),
                _ => Err(wrong(&format!("plugins[{position}]"), "must be an object")),
            };
            plugins.iter().enumerate().map(plugin).collect::<Result<_, _>>()?
        };
        let flag = |key: &str| match get_key(&whole, key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            // libcni also accepts the strings "true" and "false", in any case.
            Some(Value::String(word)) if word.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(word)) if word.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(wrong(key, "must be true or false")),
        };
        Ok(Self {
            disable_check: flag("disableCheck")?,
            disable_gc: flag("disableGC")?,
            cni_version: select_version(&whole).ok_or_else(|| wrong("cniVersion", "must be a string"))?,
            name,
            plugins,
            whole,
        })
    }

    /// Parses a network of a CNI configuration file. As in libcni, further plugins may be in `<folder>/<network
    /// name>/*.conf`, one per file. `more` reads them. All objects are the content of a [`ConfigObject`].
    pub fn from_file(
        mut whole: Map<String, Value>,
        more: impl FnOnce(&str) -> Result<Vec<Value>, String>,
    ) -> Result<Self, String> {
        let fields = ConfigFields(&whole);
        let name = fields.text("name").map_err(|e| e.to_string())?.unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err("`name` is missing".to_owned());
        }
        let inlined_only = fields.flag("loadOnlyInlinedPlugins").map_err(|e| e.to_string())?;
        if fields.get("type").is_none() && !inlined_only {
            let mut more = more(&name)?;
            let mut plugins = remove_key(&mut whole, "plugins").unwrap_or_else(|| Value::Array(Vec::new()));
            if let Value::Array(plugins) = &mut plugins {
                plugins.append(&mut more);
            }
            set_key(&mut whole, "plugins", plugins);
        }
        Self::from_object(&name, ConfigObject(whole), &name).map_err(|e| e.fault().cause)
    }

    /// Parses a network that another program has already validated, such as the default network. A missing name or
    /// version stays empty.
    pub fn from_delegate(config: &Map<String, Value>) -> Result<Self, ConfigError> {
        let fields = ConfigFields(config);
        let text = |key: &str| Ok::<_, ConfigError>(fields.text(key)?.unwrap_or_default().to_owned());
        let plugins = match fields.list("plugins")? {
            Some(plugins) => plugins.iter().map(Value::as_object).collect(),
            None => Some(vec![config]),
        };
        let wrong = || ConfigError::field("plugins", "a list of plugins, each with a `type`");
        let plugins = plugins.filter(|plugins| !plugins.is_empty()).ok_or_else(wrong)?;
        for plugin in &plugins {
            ConfigFields(plugin).non_empty("type")?.ok_or_else(wrong)?;
        }
        Ok(Self {
            name: text("name")?,
            cni_version: text("cniVersion")?,
            plugins: plugins.into_iter().cloned().collect(),
            disable_check: fields.flag("disableCheck")?,
            disable_gc: fields.flag("disableGC")?,
            whole: config.clone(),
        })
    }
}

/// Selects the highest supported version of `cniVersion` and `cniVersions`.
fn select_version(whole: &Map<String, Value>) -> Option<String> {
    let single = match get_key(whole, "cniVersion") {
        None => None,
        Some(value) => Some(value.as_str()?).filter(|version| !version.is_empty()),
    };
    let listed = get_key(whole, "cniVersions").and_then(Value::as_array).into_iter().flatten();
    let best = listed.filter_map(Value::as_str).chain(single).filter_map(CniVersion::from_name).max();
    // Keep an unsupported single version, so that the caller's error can name it.
    Some(best.map(CniVersion::as_str).or(single).unwrap_or("0.1.0").to_owned())
}

#[cfg(test)]
mod tests;
