//! Parse errors of the types in this crate.

/// A text that is not a valid value of a type of this crate. Each variant contains the rejected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedValue {
    /// A GUID in none of the accepted notations, or with a missing digit.
    #[error(
        "{0:?} is not a GUID; expected eight bytes such as 00:11:22:33:44:55:66:77, or sixteen hexadecimal digits"
    )]
    Guid(String),
    /// A P_Key that is not a number, exceeds 16 bits, or is one of the invalid values 0x0000 and 0x8000.
    #[error("{0:?} is not a P_Key; expected 0x0001 to 0x7fff, or 0x8001 to 0xffff with the full-member bit")]
    PKey(String),
    /// A PCI address that is not `domain:bus:device.function`, or whose device or function number is too large.
    #[error("{0:?} is not a PCI address; expected domain:bus:device.function, such as 0000:86:00.0")]
    PciAddress(String),
    /// A link layer other than `InfiniBand` and `Ethernet`.
    #[error("{0:?} is not a link layer; expected InfiniBand or Ethernet")]
    LinkLayer(String),
    /// A MAC address prefix that is not two bytes, or that is the start of a multicast address.
    #[error("{0:?} is not a MAC address prefix; expected two bytes of a unicast address, such as 0a:1b")]
    MacPrefix(String),
    /// A resource name without a slash, or with a prefix or name that the API server would reject.
    #[error("{0:?} is not a resource name; expected prefix/name, such as jarvice.com/rdma")]
    ResourceName(String),
}
