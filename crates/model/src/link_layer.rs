//! Link layer of an RDMA port.

use crate::MalformedValue;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

crate::named_enum! {
    /// Link layer of a port, spelled as in sysfs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum LinkLayer {
        /// InfiniBand: LIDs, a subnet manager, P_Keys.
        InfiniBand = "InfiniBand",
        /// Ethernet: RoCE or iWARP.
        Ethernet = "Ethernet",
    }
}

impl FromStr for LinkLayer {
    type Err = MalformedValue;

    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        Self::ALL
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
