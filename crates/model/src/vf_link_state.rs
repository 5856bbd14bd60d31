//! Link states of virtual functions.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Link state of a virtual function: IFLA_VF_LINK_STATE_* of linux/if_link.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VfLinkState {
    /// 0: follows the physical port.
    #[default]
    Auto,
    /// 1: up, independent of the physical port.
    Enable,
    /// 2: down.
    Disable,
}

impl VfLinkState {
    /// Value in netlink messages.
    pub const fn number(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Enable => 1,
            Self::Disable => 2,
        }
    }

    /// The state with this value in netlink messages.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Auto, Self::Enable, Self::Disable].into_iter().find(|state| state.number() == number)
    }
}

impl fmt::Display for VfLinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Enable => "enable",
            Self::Disable => "disable",
        })
    }
}
