//! Link layer of an RDMA port.

use crate::MalformedValue;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Link layer of a port, spelled as in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkLayer {
    /// InfiniBand: LIDs, a subnet manager, P_Keys.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
}

impl LinkLayer {
    /// The name that sysfs uses: `InfiniBand` or `Ethernet`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        }
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LinkLayer {
    type Err = MalformedValue;

    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        [Self::InfiniBand, Self::Ethernet]
            .into_iter()
            .find(|layer| layer.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| MalformedValue::LinkLayer(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_any_case_and_displays_sysfs_spelling() {
        assert_eq!("InfiniBand".parse(), Ok(LinkLayer::InfiniBand));
        assert_eq!("infiniband".parse(), Ok(LinkLayer::InfiniBand));
        assert_eq!("ethernet".parse::<LinkLayer>().unwrap().to_string(), "Ethernet");
        assert_eq!(serde_json::to_string(&LinkLayer::InfiniBand).unwrap(), "\"InfiniBand\"");
    }

    #[test]
    fn unknown_link_layers_are_rejected() {
        for text in ["Unknown", "", "IB"] {
            assert_eq!(text.parse::<LinkLayer>(), Err(MalformedValue::LinkLayer(text.to_owned())));
        }
    }
}
