//! Parse errors of the types in this crate.

/// Text of the wrong form. Contains the text for error messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedValue {
    /// Malformed GUID.
    #[error("{0:?} is not a GUID: eight bytes as 00:11:22:33:44:55:66:77 or sixteen hexadecimal digits")]
    Guid(String),
    /// Malformed GID.
    #[error("{0:?} is not a GID: eight groups of four hexadecimal digits")]
    Gid(String),
    /// Malformed P_Key.
    #[error("{0:?} is not a P_Key: 0x0001 to 0x7fff, or 0x8001 to 0xffff with the full-member bit")]
    PKey(String),
    /// Malformed PCI address.
    #[error("{0:?} is not a PCI address: domain:bus:device.function as 0000:86:00.0")]
    PciAddress(String),
    /// Unknown link layer.
    #[error("{0:?} is not a link layer: InfiniBand or Ethernet")]
    LinkLayer(String),
    /// Malformed resource name.
    #[error("{0:?} is not a resource name: prefix/name as jarvice.com/rdma")]
    ResourceName(String),
}
