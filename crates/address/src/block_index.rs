//! The index of an IP space: which blocks exist, and how full they are.
//!
//! The index is a hint. It helps a node to find a block with free addresses without a list of all blocks. It never
//! decides whether an address is assigned: only an entry in a block does. It may be old or missing.

use crate::block::{IP_BLOCK_SIZE, IpBlock};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One block in the index of its space, written `<first address> <used> <h or ->`. `h` means that a node holds the
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexedBlock {
    pub first: IpAddr,
    /// Number of assigned addresses, 0 to 16.
    pub used: u8,
    /// Whether a node has claimed the block.
    pub held: bool,
}

/// Why a line of an index cannot be used. The line is skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not '<first address> <used> <h or ->'")]
pub struct InvalidIndexedBlock(String);

impl IndexedBlock {
    pub fn of(block: &IpBlock) -> Self {
        Self { first: block.first, used: block.used().min(IP_BLOCK_SIZE), held: block.node.is_some() }
    }
}

impl fmt::Display for IndexedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.first, self.used, if self.held { "h" } else { "-" })
    }
}

impl FromStr for IndexedBlock {
    type Err = InvalidIndexedBlock;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.split(' ');
            let (first, used, held) = (parts.next()?, parts.next()?, parts.next()?);
            let held = match held {
                "h" => true,
                "-" => false,
                _ => return None,
            };
            let used = used.parse().ok().filter(|used| *used <= IP_BLOCK_SIZE)?;
            parts.next().is_none().then_some(Self { first: first.parse().ok()?, used, held })
        };
        parse().ok_or_else(|| InvalidIndexedBlock(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IpBlockId, IpSpace};

    #[test]
    fn text_form_is_read_back() {
        for text in ["10.0.0.16 3 h", "10.0.255.240 16 -", "2001:db8::10 0 -"] {
            assert_eq!(text.parse::<IndexedBlock>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.0", "10.0.0.0 17 -", "10.0.0.0 1 x", "10.0.0.0 1 h more", "x 1 h"] {
            assert!(text.parse::<IndexedBlock>().is_err(), "{text}");
        }
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 5].into());
        let block = IpBlock::new(id, Some("n".into()));
        assert_eq!(IndexedBlock::of(&block).to_string(), "10.0.0.0 0 h");
    }
}
