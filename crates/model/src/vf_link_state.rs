//! Link states of virtual functions.

use serde::{Deserialize, Serialize};

crate::named_enum! {
    /// Link state of a virtual function: IFLA_VF_LINK_STATE_* of linux/if_link.h.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum VfLinkState {
        /// 0: follows the physical port.
        #[default]
        Auto = "auto",
        /// 1: up, independent of the physical port.
        Enable = "enable",
        /// 2: down.
        Disable = "disable",
    }
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
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}
