//! Plain pods: pods that get only the network that Ferroband wraps.

use crate::ConfigFields;
use ferroband_model::config_object::is_same_key;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
