//! Which pod, which sandbox.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A pod, as the runtime names it in `CNI_ARGS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; empty when the runtime did not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
