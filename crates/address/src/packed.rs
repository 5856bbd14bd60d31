//! Granules of other nodes in few bytes.
//!
//! A node knows all granules of its cluster and changes few of them. What stands in the others is only read when the last
//! free address is looked for or somebody is to be told who has it, so it is kept in one block of bytes:
//!
//! ```text
//! entry:  offset, flags, ordinal, then pod, uid, interface, container, node, pool, each as
//!           0                          as in the entry before
//!           1, length, bytes           as it is
//!           2, 16 bytes                a UUID
//!           3, length, bytes           lower-case hexadecimal digits, two to a byte: container identifiers
//! ```

use crate::granule::{Entry, Granule, GranuleId};
use std::collections::BTreeMap;

const SAME: u8 = 0;
const PLAIN: u8 = 1;
const UUID: u8 = 2;
const HEX: u8 = 3;

/// Where the hyphens of a UUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A granule without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Who holds it.
    pub(crate) node: Option<Box<str>>,
    /// Assigned offsets as bits.
    pub(crate) occupied: u16,
    /// Whether a pod's name has something in it.
    pub(crate) sticky: bool,
    entries: Box<[u8]>,
}

impl Packed {
    pub(crate) fn of(granule: &Granule) -> Self {
        let mut bytes = Vec::with_capacity(96 * granule.entries.len());
        let mut before = [""; 6];
        for (offset, entry) in &granule.entries {
            let texts = texts(entry);
            bytes.extend([*offset, u8::from(entry.sticky), entry.ordinal]);
            for (text, before) in texts.iter().zip(before) {
                put(&mut bytes, text, before);
            }
            before = texts;
        }
        Self {
            node: granule.node.as_deref().map(Box::from),
            occupied: granule.occupied(),
            sticky: granule.entries.values().any(|entry| entry.sticky),
            entries: bytes.into(),
        }
    }

    pub(crate) fn unpack(&self, id: &GranuleId) -> Granule {
        let mut granule = Granule::new(id.clone(), self.node.as_deref().map(str::to_owned));
        granule.entries = self.entries();
        granule
    }

    fn entries(&self) -> BTreeMap<u8, Entry> {
        let mut entries = BTreeMap::new();
        let mut bytes = &*self.entries;
        let mut before: [String; 6] = Default::default();
        // What was packed here is whole; anything else ends it.
        while let Some(([offset, sticky, ordinal], mut rest)) =
            bytes.split_first_chunk().map(|(h, r)| (*h, r))
        {
            for text in &mut before {
                let Some(taken) = take(rest, text) else { return entries };
                rest = taken;
            }
            let [pod, uid, interface, container, node, pool] = before.clone();
            let entry = Entry { pod, uid, sticky: sticky != 0, interface, ordinal, container, node, pool };
            entries.insert(offset, entry);
            bytes = rest;
        }
        entries
    }
}

fn texts(entry: &Entry) -> [&str; 6] {
    [&entry.pod, &entry.uid, &entry.interface, &entry.container, &entry.node, &entry.pool]
}

fn put(out: &mut Vec<u8>, text: &str, before: &str) {
    if text == before {
        return out.push(SAME);
    }
    let plain = text.as_bytes();
    let is_uuid = plain.len() == 36 && HYPHENS.iter().all(|at| plain[*at] == b'-');
    let digits: String = if is_uuid { text.split('-').collect() } else { String::new() };
    if let Some(packed) = halved(&digits).filter(|packed| packed.len() == 16) {
        out.push(UUID);
        out.extend(packed);
    } else if let Some(packed) = halved(text) {
        out.push(HEX);
        length(out, packed.len());
        out.extend(packed);
    } else {
        out.push(PLAIN);
        length(out, plain.len());
        out.extend(plain);
    }
}

/// Lower-case hexadecimal digits, two to a byte; `None` if the text is anything else.
fn halved(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if text.is_empty() || !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Seven bits to a byte, the lowest first; the last has its highest bit clear.
fn length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Reads the next text over the one of before; the rest.
fn take<'a>(bytes: &'a [u8], text: &mut String) -> Option<&'a [u8]> {
    let (kind, mut rest) = bytes.split_first()?;
    if *kind == SAME {
        return Some(rest);
    }
    let mut count = 16;
    if *kind != UUID {
        count = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let (byte, after) = rest.split_first()?;
            rest = after;
            count |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    let (taken, rest) = rest.split_at_checked(count)?;
    text.clear();
    if *kind == PLAIN {
        text.push_str(std::str::from_utf8(taken).ok()?);
        return Some(rest);
    }
    for byte in taken {
        if *kind == UUID && HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
        text.extend([digit(byte >> 4), digit(byte & 0xf)]);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Space;

    fn entry(texts: [&str; 6], sticky: bool, ordinal: u8) -> Entry {
        let [pod, uid, interface, container, node, pool] = texts.map(str::to_owned);
        Entry { pod, uid, sticky, interface, ordinal, container, node, pool }
    }

    fn granule(entries: impl IntoIterator<Item = Entry>) -> Granule {
        let (id, _) = GranuleId::containing(&Space::default_space(), [10, 0, 0, 0].into());
        let mut granule = Granule::new(id, Some("n1".into()));
        granule.entries = (0..).zip(entries).collect();
        granule
    }

    #[test]
    fn what_is_packed_comes_back_exactly() {
        let long = "x".repeat(300);
        let uuid = "6f0c5c1e-93a4-4d1c-8f0e-0123456789ab";
        let upper = uuid.to_uppercase();
        let texts = [
            ["ns/p", uuid, "net1", "abcdef0123", "n1", "10.0.0.0/24"],
            ["ns/p", uuid, "net1", "abcdef0123", "n1", "10.0.0.0/24"],
            ["", "", "", "", "", ""],
            ["ä/ö", &upper, "0", "abc", "ABCD", &long],
            ["ab", "6f0c5c1e-93a4-4d1c-8f0e-0123456789ax", "--", "00", "0", "é"],
            [
                "------------------------------------",
                "6f0c5c1e-93a4-4d1c-8f0e-01234567-9ab",
                "f",
                "ff",
                "g",
                "0a",
            ],
        ];
        let whole = granule(texts.map(|texts| entry(texts, texts[0].is_empty(), texts[0].len() as u8)));
        let packed = Packed::of(&whole);
        assert_eq!(packed.unpack(&whole.id()), whole);
        assert_eq!((packed.occupied, packed.sticky), (0b11_1111, true));
        let empty = granule([]);
        assert_eq!(Packed::of(&empty).unpack(&empty.id()), empty);
    }

    #[test]
    fn a_full_granule_takes_less_than_two_kilobytes() {
        let whole = granule((0..16).map(|n| {
            let (pod, uid) = (
                format!("some-namespace/some-workload-{n}"),
                format!("6f0c5c1e-93a4-4d1c-8f0e-0123456789{n:02x}"),
            );
            entry([&pod, &uid, "net1", &format!("{n:064x}"), &format!("node-{n}"), "10.0.0.0/24"], false, 0)
        }));
        let size = Packed::of(&whole).entries.len();
        assert!(size < 2000, "{size}");
        assert_eq!(Packed::of(&whole).unpack(&whole.id()), whole);
    }
}
