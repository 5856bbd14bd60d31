//! References to pods by namespace, name and UID.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A pod, as identified in `CNI_ARGS`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// Namespace of the pod (`K8S_POD_NAMESPACE`).
    pub namespace: String,
    /// Name of the pod (`K8S_POD_NAME`).
    pub name: String,
    /// UID of the pod (`K8S_POD_UID`); empty if the runtime did not pass it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
