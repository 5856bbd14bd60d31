//! Settings of the meta plugin.

use crate::{ConfigError, ConfigFields};
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// The meta plugin, which wraps the default network.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct WrapperConfig {
    /// Default network; written by the node daemon.
    pub delegates: Vec<Map<String, Value>>,
    /// Network that replaces the default network in all pods: the name of a NetworkAttachmentDefinition or of a network
    /// in a CNI configuration file, or the path of such a file or its directory.
    pub cluster_network: Option<String>,
    /// Namespace for networks that the administrator names without a namespace; kube-system by default.
    pub multus_namespace: Option<String>,
    /// Restricts pods to networks of their own namespace and of `globalNamespaces`.
    pub namespace_isolation: bool,
    /// Namespaces whose networks every pod may use, comma-separated; `default` by default.
    pub global_namespaces: String,
    /// Networks that every pod gets.
    pub default_networks: Option<Vec<String>>,
    /// Namespaces whose pods do not get `defaultNetworks`.
    pub system_namespaces: Option<Vec<String>>,
    /// The default network is ready only if this file exists.
    #[schemars(rename = "readinessindicatorfile")]
    pub readiness_file: Option<String>,
}

impl WrapperConfig {
    /// Parse a configuration. One that is not an object has no settings.
    pub fn parse(config: &Value) -> Result<Self, ConfigError> {
        let none = Map::new();
        let config = config.as_object().unwrap_or(&none);
        let fields = ConfigFields(config);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let texts = |key: &str| -> Result<Option<Vec<String>>, ConfigError> {
            let list = fields.list(key)?;
            Ok(list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect()))
        };
        let namespace_isolation = fields.flag("namespaceIsolation")?;
        Ok(Self {
            delegates: wrapped_networks(config).cloned().collect(),
            cluster_network: owned(fields.get("clusterNetwork").and_then(Value::as_str)),
            multus_namespace: owned(fields.non_empty("multusNamespace")?),
            namespace_isolation,
            global_namespaces: match namespace_isolation {
                true => owned(fields.text("globalNamespaces")?).unwrap_or_default(),
                false => String::new(),
            },
            default_networks: texts("defaultNetworks")?,
            system_namespaces: texts("systemNamespaces")?,
            readiness_file: owned(readiness_file(config)?),
        })
    }
}

/// The networks that a configuration wraps (`delegates`). DEL and GC must not fail, so invalid ones are ignored.
pub(crate) fn wrapped_networks(config: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let delegates = ConfigFields(config).list("delegates").ok().flatten().into_iter().flatten();
    delegates.filter_map(Value::as_object)
}

/// The readiness indicator file of the default network, if there is one.
pub fn readiness_file(config: &Map<String, Value>) -> Result<Option<&str>, ConfigError> {
    ConfigFields(config).non_empty("readinessindicatorfile")
}
