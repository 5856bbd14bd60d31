//! Why a piece of text is not one of our words.

/// Text that does not have the form it should; carries the text, so a message can show it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedValue {
    /// Not a GUID.
    #[error("{0:?} is not a GUID: eight bytes as 00:11:22:33:44:55:66:77 or sixteen hexadecimal digits")]
    Guid(String),
    /// Not a GID.
    #[error("{0:?} is not a GID: eight groups of four hexadecimal digits")]
    Gid(String),
    /// Not a P_Key.
    #[error("{0:?} is not a P_Key: 0x0001 to 0x7fff, or 0x8001 to 0xffff with the full-member bit")]
    PKey(String),
    /// Not a PCI address.
    #[error("{0:?} is not a PCI address: domain:bus:device.function as 0000:86:00.0")]
    PciAddress(String),
    /// Not a link layer.
    #[error("{0:?} is not a link layer: InfiniBand or Ethernet")]
    LinkLayer(String),
    /// Not a resource name.
    #[error("{0:?} is not a resource name: prefix/name as jarvice.com/rdma")]
    ResourceName(String),
}
