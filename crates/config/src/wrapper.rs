//! Settings of the meta plugin, and plain pods: pods that get only the network that Ferroband wraps.

use crate::{ConfigError, ConfigFields};
use ferroband_model::config_object::is_same_key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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

/// Capability with which containerd and CRI-O pass the pod's annotations in `runtimeConfig`.
pub const POD_ANNOTATIONS_CAPABILITY: &str = "io.kubernetes.cri.pod-annotations";

/// Keys of Multus with which a configuration gives other networks to pods that request none.
const CLUSTER_WIDE_KEYS: [&str; 2] = ["clusterNetwork", "defaultNetworks"];

/// Which pods are plain, as the daemon writes it into the CNI configuration (`plainPods`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlainPods {
    /// Namespaces whose pods are plain unless they are annotated. `*` stands for all namespaces.
    pub namespaces: Vec<String>,
    /// Annotations that request networks. A pod on which one of them is not empty is not plain.
    pub unless_annotated: Vec<String>,
}

impl PlainPods {
    /// Key of the CNI configuration.
    pub const KEY: &str = "plainPods";
    /// Entry of `namespaces` that stands for all namespaces.
    pub const ALL_NAMESPACES: &str = "*";

    /// The settings in a CNI configuration. `None` if they are absent or invalid; then the daemon plans every pod.
    pub fn from_config(config: &Map<String, Value>) -> Option<Self> {
        let fields = ConfigFields(config);
        let is_set = |key: &&str| fields.get(key).is_some_and(|value| *value != Value::Array(Vec::new()));
        if CLUSTER_WIDE_KEYS.iter().any(is_set) {
            return None;
        }
        Self::deserialize(fields.get(Self::KEY)?).ok()
    }

    /// Whether a pod of `namespace` is plain whose annotations the runtime passes in `config`. If it does not pass
    /// them, the pod is not plain.
    pub fn contains(&self, namespace: &str, config: &Map<String, Value>) -> bool {
        let runtime_config = ConfigFields(config).object("runtimeConfig").ok().flatten();
        let annotations = runtime_config.and_then(|of| of.object(POD_ANNOTATIONS_CAPABILITY).ok()?);
        let Some(annotations) = annotations else { return false };
        // Decoding has merged keys that differ in letter case only. Such a key may have replaced the annotation, so
        // the daemon plans the pod.
        let requests_nothing = |annotation: &String| {
            let mut same = annotations.0.iter().filter(|(name, _)| is_same_key(name, annotation));
            same.all(|(name, value)| {
                name == annotation && value.as_str().is_some_and(|value| value.trim().is_empty())
            })
        };
        let mut namespaces = self.namespaces.iter();
        namespaces.any(|listed| listed == Self::ALL_NAMESPACES || listed == namespace)
            && self.unless_annotated.iter().all(requests_nothing)
    }
}
