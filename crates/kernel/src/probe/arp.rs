//! ARP frames (RFC 826, RFC 5227; RFC 4391 for InfiniBand).

use crate::rtnetlink::Link;
use std::net::{IpAddr, Ipv4Addr};

const REQUEST: u16 = 1;
const IPV4: u16 = 0x0800;

/// An ARP probe. Its sender address is 0.0.0.0, so that neighbours do not cache it.
pub(super) fn probe(link: &Link, address: Ipv4Addr) -> Vec<u8> {
    frame(link, Ipv4Addr::UNSPECIFIED, address)
}

/// An ARP request for `target` from `own`. If both are equal, it is an announcement.
pub(super) fn request(link: &Link, own: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    frame(link, own, target)
}

fn frame(link: &Link, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let length = link.address.len();
    let mut frame = Vec::with_capacity(8 + 2 * (length + 4));
    // The ARP hardware type is ARPHRD_*: 1 for Ethernet, 32 for InfiniBand.
    frame.extend(link.link_type.to_be_bytes());
    frame.extend(IPV4.to_be_bytes());
    frame.extend([length as u8, 4]);
    frame.extend(REQUEST.to_be_bytes());
    frame.extend(&link.address);
    frame.extend(sender.octets());
    frame.extend(std::iter::repeat_n(0, length));
    frame.extend(target.octets());
    frame
}

/// Returns the IP address that the sender of the frame claims, and the sender's hardware address. The claimed
/// address is the sender address or, in an ARP probe, the target address. Returns `None` for a malformed frame.
pub(super) fn claimed_address(frame: &[u8]) -> Option<(IpAddr, Vec<u8>)> {
    let length = usize::from(*frame.get(4)?);
    if frame.get(2..4)? != IPV4.to_be_bytes() || *frame.get(5)? != 4 {
        return None;
    }
    let hardware = frame.get(8..8 + length)?.to_vec();
    let address = |at: usize| -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
        Some(bytes.into())
    };
    let sender = address(8 + length)?;
    let target = address(12 + 2 * length)?;
    let claimed = if sender.is_unspecified() { target } else { sender };
    Some((claimed.into(), hardware))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(length: usize, link_type: u16) -> Link {
        Link { address: (0..length as u8).collect(), link_type, ..Link::default() }
    }

    // Case: ipam P02
    #[test]
    fn infiniband_probe_has_hardware_type_32_and_20_byte_addresses() {
        let frame = probe(&link(20, 32), [10, 0, 0, 7].into());
        assert_eq!(frame.len(), 56);
        assert_eq!(frame[..8], [0, 32, 8, 0, 20, 4, 0, 1]);
        assert_eq!(frame[8..28], (0..20).collect::<Vec<u8>>());
        assert_eq!(frame[28..52], [0; 24]);
        assert_eq!(frame[52..], [10, 0, 0, 7]);
        assert_eq!(claimed_address(&frame), Some(([10, 0, 0, 7].into(), (0..20).collect())));
        let frame = request(&link(6, 1), [10, 0, 0, 7].into(), [10, 0, 0, 1].into());
        assert_eq!((frame.len(), &frame[..2]), (28, &[0, 1][..]));
        assert_eq!(claimed_address(&frame), Some(([10, 0, 0, 7].into(), (0..6).collect())));
    }

    #[test]
    fn malformed_frames_claim_no_address() {
        let good = probe(&link(20, 32), [10, 0, 0, 7].into());
        for length in 0..good.len() {
            assert_eq!(claimed_address(&good[..length]), None, "{length}");
        }
        assert_eq!(claimed_address(&[0xff; 100]), None);
    }
}
