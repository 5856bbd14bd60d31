//! How a port belongs to a partition.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Full members talk to everybody in the partition, limited ones to full members only (IBTA volume 1, 10.9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    /// Talks to all members. What ib-kubernetes always asked for.
    #[default]
    Full,
    /// Talks to full members.
    Limited,
}

impl Membership {
    /// The word that UFM and opensm use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Limited => "limited",
        }
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Membership {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "limited" => Ok(Self::Limited),
            other => Err(format!("{other:?} is neither full nor limited")),
        }
    }
}
