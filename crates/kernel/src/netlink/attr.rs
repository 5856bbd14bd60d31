//! Decoding of netlink messages.
//!
//! Replies contain many driver-specific attributes. A decoder that interprets all of them fails at the first
//! unknown one; this one reads only what is needed and skips the rest.

use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A message without interpretation: its type and the payload after the netlink header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawMessage {
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
}

impl NetlinkDeserializable for RawMessage {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Self { kind: header.message_type, payload: payload.to_vec() })
    }
}

impl NetlinkSerializable for RawMessage {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.payload.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.payload);
    }
}

impl RawMessage {
    /// The fixed header at the start of the payload. `None` if the message type is not `kind` or the payload
    /// is shorter than the header.
    pub(crate) fn head<const LENGTH: usize>(&self, kind: u16) -> Option<&[u8; LENGTH]> {
        if self.kind == kind { self.payload.first_chunk() } else { None }
    }

    /// Type and value of each attribute after a fixed header of `head` bytes.
    pub(crate) fn attributes(&self, head: usize) -> impl Iterator<Item = (u16, &[u8])> {
        iter(self.payload.get(head..).unwrap_or_default())
    }
}

/// Type (without flags) and value of each attribute in `bytes`. The iteration ends at the first truncated
/// attribute.
pub(crate) fn iter(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16(rest)?);
        let kind = u16(rest.get(2..)?)? & nix::libc::NLA_TYPE_MASK as u16;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Decodes a string up to its terminating zero.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Decodes a u16 in native byte order; `None` if the value is too short.
pub(crate) fn u16(value: &[u8]) -> Option<u16> {
    value.first_chunk().copied().map(u16::from_ne_bytes)
}

/// Decodes a u32 in native byte order; `None` if the value is too short.
pub(crate) fn u32(value: &[u8]) -> Option<u32> {
    value.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Decodes an i32 in native byte order; `None` if the value is too short.
pub(crate) fn i32(value: &[u8]) -> Option<i32> {
    value.first_chunk().copied().map(i32::from_ne_bytes)
}

/// Decodes a u64 in native byte order; `None` if the value is too short.
pub(crate) fn u64(value: &[u8]) -> Option<u64> {
    value.first_chunk().copied().map(u64::from_ne_bytes)
}

/// Decodes an IPv4 address of 4 bytes or an IPv6 address of 16 bytes; `None` for any other length.
pub(crate) fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => value.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into()),
        16 => value.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_flags_are_skipped() {
        let mut bytes = [5u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat();
        bytes.extend([7, 0, 0, 0]);
        bytes.extend([8u16.to_ne_bytes(), (2u16 | 0x8000).to_ne_bytes()].concat());
        bytes.extend(9u32.to_ne_bytes());
        let decoded: Vec<_> = iter(&bytes).map(|(kind, value)| (kind, value.to_vec())).collect();
        assert_eq!(decoded, [(1, vec![7]), (2, 9u32.to_ne_bytes().to_vec())]);
    }

    #[test]
    fn truncated_attributes_end_the_iteration() {
        for cut in [&[][..], &[8, 0], &[8, 0, 1, 0, 9], &[0, 0, 1, 0], &[3, 0, 1, 0]] {
            assert_eq!(iter(cut).count(), 0, "{cut:?}");
        }
        // The last attribute must be decoded although it is not padded to four bytes.
        assert_eq!(iter(&[5, 0, 1, 0, 9]).count(), 1);
    }

    #[test]
    fn values() {
        assert_eq!(text(b"ib0\0junk"), "ib0");
        assert_eq!(text(b"ib0"), "ib0");
        assert_eq!((u16(&[1]), u32(&[1, 2])), (None, None));
        assert_eq!(ip(&[10, 0, 0, 1]), Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(ip(&[0; 16]), Some(Ipv6Addr::UNSPECIFIED.into()));
        assert_eq!(ip(&[0; 5]), None);
    }
}
