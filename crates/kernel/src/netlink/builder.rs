//! Writing what the kernel is sent.

use super::RawMessage;

/// NLA_F_NESTED of linux/netlink.h: the value is attributes itself.
const NESTED: u16 = 1 << 15;

/// The payload of a message under construction: a fixed part, then attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageBuilder {
    bytes: Vec<u8>,
}

impl MessageBuilder {
    /// Begins with a fixed part; RDMA netlink and nested attributes have none.
    pub(crate) fn new(head: &[u8]) -> Self {
        Self { bytes: head.to_vec() }
    }

    /// Adds an attribute: length with its header, type, value, padded to four bytes.
    ///
    /// A length is sixteen bits. Nothing that we send comes near; what would not fit is cut, and the kernel's
    /// policy refuses it.
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

    /// Adds an attribute if there is something to say.
    #[must_use]
    pub(crate) fn with_optional<T: AsRef<[u8]>>(self, kind: u16, value: Option<T>) -> Self {
        match value {
            Some(value) => self.with(kind, value.as_ref()),
            None => self,
        }
    }

    /// Adds a text with its terminating zero.
    #[must_use]
    pub(crate) fn with_text(self, kind: u16, text: &str) -> Self {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds attributes inside an attribute, without the mark that says so: route netlink's older ones never
    /// had it.
    #[must_use]
    pub(crate) fn with_nest(self, kind: u16, nest: &Self) -> Self {
        self.with(kind, &nest.bytes)
    }

    /// The same with the mark, which rtnetlink's newer attributes demand.
    #[must_use]
    pub(crate) fn with_flagged_nest(self, kind: u16, nest: &Self) -> Self {
        self.with(kind | NESTED, &nest.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The message of this type.
    pub(crate) fn build(self, kind: u16) -> RawMessage {
        RawMessage { kind, payload: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attr;

    #[test]
    fn what_is_written_is_read_back() {
        let nest = MessageBuilder::default().with(1, &7u32.to_ne_bytes());
        let message = MessageBuilder::new(&[9; 4]).with_text(3, "ib0").with_nest(22, &nest).build(19);
        assert_eq!(message.head::<4>(19), Some(&[9; 4]));
        assert_eq!(message.head::<4>(18), None, "of another type");
        let seen: Vec<_> = message.attributes(4).collect();
        assert_eq!(seen[0], (3, &b"ib0\0"[..]));
        assert_eq!(attr::iter(seen[1].1).collect::<Vec<_>>(), [(1, &7u32.to_ne_bytes()[..])]);
    }

    #[test]
    fn too_long_a_value_is_cut_and_not_wrapped() {
        let message = MessageBuilder::default().with(1, &[1; 70_000]).build(1);
        let [(kind, value)] = message.attributes(0).collect::<Vec<_>>()[..] else { panic!("one attribute") };
        assert_eq!((kind, value.len()), (1, 65_531));
    }
}
