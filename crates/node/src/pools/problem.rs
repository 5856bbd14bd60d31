//! What is wrong with a configuration, by file and field.

use serde::Serialize;
use std::fmt;

/// Something that whoever wrote the configuration should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolProblem {
    /// The file.
    pub file: String,
    /// The field in it, by its way from the top: `resourceList[1].selectors.pfNames[0]`. Empty: the whole file.
    pub field: String,
    /// What is wrong, and what would be right.
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
