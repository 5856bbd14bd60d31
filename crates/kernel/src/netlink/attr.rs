//! Construction and decoding of netlink messages, and the errors of requests.
//!
//! Replies contain many driver-specific attributes. A decoder that interprets all of them fails at the first
//! unknown one; this one reads only what is needed and skips the rest.

use super::NetlinkFamily;
use crate::Error;
use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};
use nix::errno::Errno;
use std::convert::Infallible;
use std::io;
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

    /// Value of the first attribute of type `kind` after a fixed header of `head` bytes.
    pub(crate) fn attribute(&self, head: usize, kind: u16) -> Option<&[u8]> {
        find(self.payload.get(head..)?, kind)
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

/// Value of the first attribute of type `kind` in `bytes`.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    iter(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
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

/// The value consists of attributes.
const NESTED: u16 = nix::libc::NLA_F_NESTED as u16;

/// The payload of a message: a fixed header, then attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageBuilder {
    bytes: Vec<u8>,
}

impl MessageBuilder {
    /// Starts with a fixed header. RDMA netlink messages and nested attributes have no fixed header.
    pub(crate) fn new(head: &[u8]) -> Self {
        Self { bytes: head.to_vec() }
    }

    /// Appends an attribute: the length including the attribute header, the type, and the value padded to four
    /// bytes.
    ///
    /// The length has sixteen bits. No message of this crate comes near the limit; a longer value is truncated, and
    /// the kernel's policy rejects it.
    #[must_use]
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len().saturating_add(4)).unwrap_or(u16::MAX);
        let value = &value[..usize::from(length) - 4];
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Appends the attribute, or nothing if `value` is `None`.
    #[must_use]
    pub(crate) fn with_optional<T: AsRef<[u8]>>(self, kind: u16, value: Option<T>) -> Self {
        match value {
            Some(value) => self.with(kind, value.as_ref()),
            None => self,
        }
    }

    /// Appends an attribute with a zero-terminated string.
    #[must_use]
    pub(crate) fn with_text(self, kind: u16, text: &str) -> Self {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Appends nested attributes without NLA_F_NESTED, as older rtnetlink attributes expect.
    #[must_use]
    pub(crate) fn with_nest(self, kind: u16, nest: &Self) -> Self {
        self.with(kind, &nest.bytes)
    }

    /// Appends nested attributes with NLA_F_NESTED, which newer rtnetlink attributes require.
    #[must_use]
    pub(crate) fn with_flagged_nest(self, kind: u16, nest: &Self) -> Self {
        self.with(kind | NESTED, &nest.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the message with the netlink message type `kind`.
    pub(crate) fn build(self, kind: u16) -> RawMessage {
        RawMessage { kind, payload: self.bytes }
    }
}

/// Why a request failed. The caller adds the interface or device with one of the `for_` methods.
#[derive(Debug)]
pub(crate) enum NetlinkError {
    /// The kernel returned an error, possibly with an explanation.
    Kernel(Errno, Option<String>),
    Io(NetlinkFamily, io::Error),
    Decode(DecodeError),
}

impl NetlinkError {
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel(errno, _) => Some(*errno),
            Self::Io(..) | Self::Decode(_) => None,
        }
    }

    /// Converts the error of a request that sets the interface name `name`. If the name is taken, the kernel
    /// returns EEXIST without an explanation; for other conflicts it adds one.
    pub(crate) fn for_name(self, doing: impl Into<String>, interface: &str, name: &str) -> Error {
        match self {
            Self::Kernel(Errno::EEXIST, None) => Error::NameTaken { interface: name.to_owned() },
            other => other.for_interface(doing, interface),
        }
    }

    pub(crate) fn for_interface(self, doing: impl Into<String>, interface: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::InterfaceRequest { doing: doing.into(), interface: interface.into(), errno, message }
            }
            other => other.without_reply(interface),
        }
    }

    /// Converts the error of a request about a PCI function, a virtual function or an RDMA device.
    pub(crate) fn for_device(self, doing: impl Into<String>, device: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::DeviceRequest { doing: doing.into(), device: device.into(), errno, message }
            }
            other => other.without_reply(device),
        }
    }

    /// Converts an I/O or decoding error. The callers have already handled errors that the kernel returned.
    fn without_reply(self, about: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::DeviceRequest { doing: "query".to_owned(), device: about.into(), errno, message }
            }
            Self::Io(family, source) => family.socket_error("use", source),
            Self::Decode(source) => Error::Undecodable { interface: about.into(), source },
        }
    }
}

#[cfg(test)]
mod tests;
