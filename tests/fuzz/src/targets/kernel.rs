//! Messages of the kernel.

/// A netlink datagram.
pub fn netlink(bytes: &[u8]) {
    ferroband_kernel::rtnetlink::decode_anything(bytes);
}
