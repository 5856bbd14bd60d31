//! Compact in-memory form of other nodes' blocks.
//!
//! A node caches all blocks of the cluster but changes few of them. Of the other blocks it needs only which
//! addresses are assigned, their holders for exhaustion errors, and the sticky allocations. This information
//! is packed into one byte string. Pod UIDs and sandboxes are dropped, so a compact block must be read from
//! the API server before it is written.
//!
//! ```text
//! allocation:  offset, flags, ordinal, then pod, interface, node, pool, each as
//!              length of the prefix shared with the previous allocation, length of the rest, the rest
//! ```

use crate::block::{AddressAllocation, IpBlock, IpBlockId};
use std::collections::BTreeMap;

/// Flags of a packed allocation. `RESERVED` means that no sandbox uses the address.
const STICKY: u8 = 1;
const RESERVED: u8 = 2;

/// Placeholder for a sandbox ID that the compact form does not store.
const UNKNOWN_SANDBOX: &str = "elsewhere";

/// An [`IpBlock`] in compact form, without its ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompactBlock {
    /// Node that has claimed the block.
    pub(crate) node: Option<Box<str>>,
    /// Bit mask of the assigned addresses: bit n stands for the address at offset n.
    pub(crate) assigned_offsets: u16,
    /// Whether at least one allocation is sticky, that is, kept for the next pod with the same name.
    pub(crate) sticky: bool,
    entries: Box<[u8]>,
}

impl CompactBlock {
    pub(crate) fn pack(block: &IpBlock) -> Self {
        let mut bytes = Vec::with_capacity(24 * block.entries.len());
        let mut previous = [""; 4];
        for (offset, entry) in &block.entries {
            let sticky = if entry.sticky { STICKY } else { 0 };
            let reserved = if entry.is_reserved() { RESERVED } else { 0 };
            bytes.extend([*offset, sticky | reserved, entry.ordinal]);
            let texts = [&*entry.pod, &*entry.interface, &*entry.node, &*entry.pool];
            for (text, previous) in texts.iter().zip(previous) {
                push_text(&mut bytes, text.as_bytes(), previous.as_bytes());
            }
            previous = texts;
        }
        Self {
            node: block.node.as_deref().map(Box::from),
            assigned_offsets: block.assigned_offsets(),
            sticky: block.entries.values().any(|entry| entry.sticky),
            entries: bytes.into(),
        }
    }

    /// Returns the block without pod UIDs and sandboxes.
    pub(crate) fn unpack(&self, id: &IpBlockId) -> IpBlock {
        let mut block = IpBlock::new(id.clone(), self.node.as_deref().map(str::to_owned));
        block.entries = self.entries();
        block
    }

    fn entries(&self) -> BTreeMap<u8, AddressAllocation> {
        let mut entries = BTreeMap::new();
        let mut bytes = &*self.entries;
        let mut texts: [Vec<u8>; 4] = Default::default();
        // Only `pack` writes these bytes, so they should be valid. Decoding ends at the first malformed allocation.
        while let Some(([offset, flags, ordinal], mut rest)) =
            bytes.split_first_chunk().map(|(head, rest)| (*head, rest))
        {
            for text in &mut texts {
                let Some(remaining) = read_text(rest, text) else { return entries };
                rest = remaining;
            }
            let [pod, interface, node, pool] =
                texts.each_ref().map(|text| String::from_utf8_lossy(text).into_owned());
            let container = if flags & RESERVED == 0 { UNKNOWN_SANDBOX } else { "" };
            let entry = AddressAllocation {
                pod,
                uid: String::new(),
                sticky: flags & STICKY != 0,
                interface,
                ordinal,
                container: container.to_owned(),
                node,
                pool,
            };
            entries.insert(offset, entry);
            bytes = rest;
        }
        entries
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8], previous: &[u8]) {
    let shared = text.iter().zip(previous).take_while(|(byte, other)| byte == other).count();
    push_length(out, shared);
    push_length(out, text.len() - shared);
    out.extend(&text[shared..]);
}

/// Appends a LEB128 integer: seven bits per byte, lowest first; the last byte has its top bit clear.
fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Decodes the next text into `text`, which must contain the same field of the previous allocation. Returns
/// the remaining bytes, or `None` if the bytes are malformed.
fn read_text<'a>(bytes: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (shared, rest) = read_length(bytes)?;
    let (more, rest) = read_length(rest)?;
    let (new, rest) = rest.split_at_checked(more)?;
    text.truncate(shared);
    text.extend(new);
    Some(rest)
}

fn read_length(mut bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut count = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        bytes = rest;
        count |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((count, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpSpace;

    fn entry(texts: [&str; 4], container: &str, sticky: bool) -> AddressAllocation {
        let [pod, interface, node, pool] = texts.map(str::to_owned);
        let ordinal = texts[0].len() as u8;
        AddressAllocation {
            pod,
            uid: "u".to_owned(),
            sticky,
            interface,
            ordinal,
            container: container.to_owned(),
            node,
            pool,
        }
    }

    fn block(entries: impl IntoIterator<Item = AddressAllocation>) -> IpBlock {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let mut block = IpBlock::new(id, Some("n1".into()));
        block.entries = (0..).zip(entries).collect();
        block
    }

    #[test]
    fn unpacked_block_equals_original_without_uids_and_sandboxes() {
        // Lengths of one and of two bytes, with and without the top bit of the low byte.
        let long = "x".repeat(300);
        let longer_than_a_byte = "y".repeat(200);
        let texts = [
            ["ns/p", "net1", "n1", "10.0.0.0/24"],
            ["ns/p", "net1", "n1", "10.0.0.0/24"],
            ["", "", "", ""],
            ["ä/ö", "0", "ABCD", &long],
            ["ä/é", "--", "", &long[..299]],
            [&longer_than_a_byte, &longer_than_a_byte[..128], "n", &longer_than_a_byte[..127]],
        ];
        let mut full = block(texts.map(|texts| entry(texts, texts[1], texts[0].is_empty())));
        let packed = CompactBlock::pack(&full);
        for entry in full.entries.values_mut() {
            entry.uid.clear();
            entry.container = if entry.is_reserved() { String::new() } else { UNKNOWN_SANDBOX.to_owned() };
        }
        assert_eq!(packed.unpack(&full.id()), full);
        assert_eq!((packed.assigned_offsets, packed.sticky), (0b11_1111, true));
        let empty = block([]);
        assert_eq!(CompactBlock::pack(&empty).unpack(&empty.id()), empty);
    }

    #[test]
    fn full_block_takes_less_than_400_bytes() {
        let full = block((0..16).map(|n| {
            let pod = format!("some-namespace/some-workload-{n}");
            entry([&pod, "net1", "node-7", "10.0.0.0/24"], "c", false)
        }));
        let size = CompactBlock::pack(&full).entries.len();
        assert!(size < 400, "{size}");
    }
}
