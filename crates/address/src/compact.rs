//! Granules of other nodes in few bytes.
//!
//! A node knows all granules of its cluster and changes few of them. Of what stands in the others it needs which addresses
//! are taken, whom to name when there are none left, and what waits for a pod by name; so that much is kept, in one block
//! of bytes. Whoever writes such a granule reads it first: pods' UIDs and sandboxes are left out.
//!
//! ```text
//! entry:  offset, flags, ordinal, then pod, interface, node, pool, each as
//!           how many bytes are those of the entry before, how many follow, those
//! ```

use crate::block::{AddressAllocation, IpBlock, IpBlockId};
use std::collections::BTreeMap;

/// Flags of an entry.
const STICKY: u8 = 1;
const RESERVED: u8 = 2;

/// The sandbox of an entry that has one, which is not known here.
const UNKNOWN_SANDBOX: &str = "elsewhere";

/// A granule without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompactBlock {
    /// Who holds it.
    pub(crate) node: Option<Box<str>>,
    /// Assigned offsets as bits.
    pub(crate) assigned_offsets: u16,
    /// Whether a pod's name has something in it.
    pub(crate) sticky: bool,
    entries: Box<[u8]>,
}

impl CompactBlock {
    pub(crate) fn pack(granule: &IpBlock) -> Self {
        let mut bytes = Vec::with_capacity(24 * granule.entries.len());
        let mut before = [""; 4];
        for (offset, entry) in &granule.entries {
            let sticky = if entry.sticky { STICKY } else { 0 };
            let waiting = if entry.is_reserved() { RESERVED } else { 0 };
            bytes.extend([*offset, sticky | waiting, entry.ordinal]);
            let texts = [&*entry.pod, &*entry.interface, &*entry.node, &*entry.pool];
            for (text, before) in texts.iter().zip(before) {
                push_text(&mut bytes, text.as_bytes(), before.as_bytes());
            }
            before = texts;
        }
        Self {
            node: granule.node.as_deref().map(Box::from),
            assigned_offsets: granule.assigned_offsets(),
            sticky: granule.entries.values().any(|entry| entry.sticky),
            entries: bytes.into(),
        }
    }

    /// The granule, as far as it is known: without UIDs and sandboxes.
    pub(crate) fn unpack(&self, id: &IpBlockId) -> IpBlock {
        let mut granule = IpBlock::new(id.clone(), self.node.as_deref().map(str::to_owned));
        granule.entries = self.entries();
        granule
    }

    fn entries(&self) -> BTreeMap<u8, AddressAllocation> {
        let mut entries = BTreeMap::new();
        let mut bytes = &*self.entries;
        let mut texts: [Vec<u8>; 4] = Default::default();
        // What was packed here is whole; anything else ends it.
        while let Some(([offset, flags, ordinal], mut rest)) =
            bytes.split_first_chunk().map(|(head, rest)| (*head, rest))
        {
            for text in &mut texts {
                let Some(taken) = read_text(rest, text) else { return entries };
                rest = taken;
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

fn push_text(out: &mut Vec<u8>, text: &[u8], before: &[u8]) {
    let same = text.iter().zip(before).take_while(|(one, other)| one == other).count();
    push_length(out, same);
    push_length(out, text.len() - same);
    out.extend(&text[same..]);
}

/// Seven bits to a byte, the lowest first; the last has its highest bit clear.
fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Reads the next text over the one of before; the rest.
fn read_text<'a>(bytes: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (same, rest) = read_length(bytes)?;
    let (more, rest) = read_length(rest)?;
    let (new, rest) = rest.split_at_checked(more)?;
    text.truncate(same);
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

    fn granule(entries: impl IntoIterator<Item = AddressAllocation>) -> IpBlock {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let mut granule = IpBlock::new(id, Some("n1".into()));
        granule.entries = (0..).zip(entries).collect();
        granule
    }

    #[test]
    fn what_is_packed_comes_back_without_uids_and_sandboxes() {
        let long = "x".repeat(300);
        let texts = [
            ["ns/p", "net1", "n1", "10.0.0.0/24"],
            ["ns/p", "net1", "n1", "10.0.0.0/24"],
            ["", "", "", ""],
            ["ä/ö", "0", "ABCD", &long],
            ["ä/é", "--", "", &long[..299]],
        ];
        let mut whole = granule(texts.map(|texts| entry(texts, texts[1], texts[0].is_empty())));
        let packed = CompactBlock::pack(&whole);
        for entry in whole.entries.values_mut() {
            entry.uid.clear();
            entry.container = if entry.is_reserved() { String::new() } else { UNKNOWN_SANDBOX.to_owned() };
        }
        assert_eq!(packed.unpack(&whole.id()), whole);
        assert_eq!((packed.assigned_offsets, packed.sticky), (0b1_1111, true));
        let empty = granule([]);
        assert_eq!(CompactBlock::pack(&empty).unpack(&empty.id()), empty);
    }

    #[test]
    fn a_full_granule_takes_a_few_hundred_bytes() {
        let whole = granule((0..16).map(|n| {
            let pod = format!("some-namespace/some-workload-{n}");
            entry([&pod, "net1", "node-7", "10.0.0.0/24"], "c", false)
        }));
        let size = CompactBlock::pack(&whole).entries.len();
        assert!(size < 400, "{size}");
    }
}
