//! Problems in the pool configuration.

use serde::Serialize;
use std::fmt;

/// A problem that the author of the configuration must fix.
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
