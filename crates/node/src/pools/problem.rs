//! Problems with pools: invalid configuration and unhealthy devices.

use serde::Serialize;
use std::fmt;

/// A problem that an administrator must fix, in the configuration or in the hardware.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolProblem {
    pub file: String,
    /// JSON path of the field with the problem, for example `resourceList[1].selectors.pfNames[0]`. Empty if
    /// the problem is with the whole file.
    pub field: String,
    /// What is wrong and what is expected.
    pub cause: String,
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.is_empty() {
            true => write!(f, "{}: {}", self.file, self.cause),
            false => write!(f, "{}: {}: {}", self.file, self.field, self.cause),
        }
    }
}
