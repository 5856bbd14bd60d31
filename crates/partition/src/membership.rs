//! Full and limited partition membership.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Membership type. Full members communicate with all members, limited ones with full members only (IBTA volume 1,
/// 10.9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    /// Communicates with all members. The only type that ib-kubernetes requests.
    #[default]
    Full,
    /// Communicates with full members only.
    Limited,
}

impl Membership {
    /// The name that UFM and opensm use.
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
            other => Err(format!("membership {other:?} is neither full nor limited")),
        }
    }
}
