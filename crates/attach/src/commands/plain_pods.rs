//! Plain pods: pods that get only the network that Ferroband wraps.
//!
//! ```text
//! daemon ── plainPods in the CNI configuration ─┐
//! runtime ── the pod's annotations ─────────────┴─▶ ADD: the wrapped network, without the daemon
//! ```
//!
//! The daemon decides which pods are plain. The program only compares, so that it needs neither the daemon nor the API
//! server for pods that do not use Ferroband.

#![warn(missing_docs)]

use crate::commands::del;
use crate::ipc::plan::Attachment;
use crate::protocol::config::ConfigFields;
use crate::protocol::{Error, Invocation};
use crate::steps::chain;
use ferroband_model::PodRef;
use ferroband_model::config_object::{is_same_key, set_key};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    pub(crate) fn from_config(fields: ConfigFields<'_>) -> Option<Self> {
        let is_set = |key: &&str| fields.get(key).is_some_and(|value| *value != Value::Array(Vec::new()));
        if CLUSTER_WIDE_KEYS.iter().any(is_set) {
            return None;
        }
        Self::deserialize(fields.get(Self::KEY)?).ok()
    }

    fn contains(&self, namespace: &str, annotations: ConfigFields<'_>) -> bool {
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

/// Whether the pod of an ADD is plain. A pod whose annotations the runtime does not pass is not.
pub(crate) fn is_plain(call: &Invocation, pod: Option<&PodRef>) -> bool {
    let fields = call.config.fields();
    let annotations = || fields.object("runtimeConfig").ok()??.object(POD_ANNOTATIONS_CAPABILITY).ok()?;
    let (Some(plain), Some(pod), Some(annotations)) = (PlainPods::from_config(fields), pod, annotations())
    else {
        return false;
    };
    plain.contains(&pod.namespace, annotations) && del::wrapped_networks(fields).next().is_some()
}

/// The network that the configuration wraps.
pub(crate) fn wrapped_network(call: &Invocation) -> Result<Attachment, Error> {
    let fields = call.config.fields();
    let missing = || Error::Field {
        field: "delegates".to_owned(),
        expected: "a list that contains the wrapped network",
    };
    let wrapped = del::wrapped_networks(fields).next().ok_or_else(missing)?;
    let mut network = chain::parse_foreign(wrapped.0, &call.ifname, true)?;
    if let Some(runtime_config) = fields.get("runtimeConfig") {
        for step in &mut network.steps {
            set_key(&mut step.config, "runtimeConfig", runtime_config.clone());
            // The annotations of a pod may be large, so the journal contains only what the plugin gets.
            chain::limit_to_capabilities(&mut step.config);
        }
    }
    Ok(network)
}
