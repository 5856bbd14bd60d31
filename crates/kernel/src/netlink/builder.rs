//! Construction of netlink messages.

use super::RawMessage;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attr;

    #[test]
    fn built_message_can_be_decoded() {
        let nest = MessageBuilder::default().with(1, &7u32.to_ne_bytes());
        let message = MessageBuilder::new(&[9; 4]).with_text(3, "ib0").with_nest(22, &nest).build(19);
        assert_eq!(message.head::<4>(19), Some(&[9; 4]));
        assert_eq!(message.head::<4>(18), None, "another message type");
        let attributes: Vec<_> = message.attributes(4).collect();
        assert_eq!(attributes[0], (3, &b"ib0\0"[..]));
        assert_eq!(attr::iter(attributes[1].1).collect::<Vec<_>>(), [(1, &7u32.to_ne_bytes()[..])]);
    }

    #[test]
    fn value_that_is_too_long_is_truncated() {
        let message = MessageBuilder::default().with(1, &[1; 70_000]).build(1);
        let [(kind, value)] = message.attributes(0).collect::<Vec<_>>()[..] else { panic!("one attribute") };
        assert_eq!((kind, value.len()), (1, 65_531));
    }
}
