//! Neighbour discovery packets (RFC 4861), with InfiniBand link-layer addresses (RFC 4391, section 9.3).

use crate::rtnetlink::Link;
use std::net::{IpAddr, Ipv6Addr};

const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const OPTION_SOURCE_LLADDR: u8 = 1;
const OPTION_TARGET_LLADDR: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A neighbour solicitation for `target`. Its source is `own` or, for duplicate address detection, `::`.
pub(super) fn solicitation(link: &Link, own: Option<Ipv6Addr>, target: Ipv6Addr) -> Vec<u8> {
    let mut body = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    body.extend(target.octets());
    // A solicitation from `::` must not contain a source option (RFC 4861, section 4.3).
    if own.is_some() {
        body.extend(lladdr_option(OPTION_SOURCE_LLADDR, &link.address));
    }
    packet(own.unwrap_or(Ipv6Addr::UNSPECIFIED), solicited_node_group(target), body)
}

/// An unsolicited neighbour advertisement to all nodes, with the override flag.
pub(super) fn advertisement(link: &Link, own: Ipv6Addr) -> Vec<u8> {
    let mut body = vec![ADVERTISEMENT, 0, 0, 0, 0x20, 0, 0, 0];
    body.extend(own.octets());
    body.extend(lladdr_option(OPTION_TARGET_LLADDR, &link.address));
    packet(own, ALL_NODES, body)
}

/// A link-layer address option. On InfiniBand two zero bytes precede the address, and the length is 3 units of 8
/// bytes.
fn lladdr_option(kind: u8, address: &[u8]) -> Vec<u8> {
    let mut option = vec![kind, 0];
    if address.len() == 20 {
        option.extend([0, 0]);
    }
    option.extend(address);
    option.resize(option.len().next_multiple_of(8), 0);
    option[1] = (option.len() / 8) as u8;
    option
}

fn packet(from: Ipv6Addr, to: Ipv6Addr, mut body: Vec<u8>) -> Vec<u8> {
    let length = body.len() as u16;
    let sum = checksum(from, to, &body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([ICMPV6, 255]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(body);
    packet
}

/// The ICMPv6 checksum, which includes a pseudo header (RFC 4443).
fn checksum(from: Ipv6Addr, to: Ipv6Addr, body: &[u8]) -> u16 {
    let length = (body.len() as u32).to_be_bytes();
    let pseudo = [&from.octets()[..], &to.octets(), &length, &[0, 0, 0, ICMPV6], body].concat();
    let words = pseudo.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The solicited-node multicast group of `address`, ff02::1:ff00:0/104.
fn solicited_node_group(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.octets();
    let mut group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).octets();
    group[13..].copy_from_slice(&low[13..]);
    group.into()
}

/// The hardware address of the solicited-node group of `address`.
pub(super) fn solicited_node_lladdr(link: &Link, address: Ipv6Addr) -> Vec<u8> {
    multicast_lladdr(link, solicited_node_group(address))
}

/// The hardware address of the all-nodes group.
pub(super) fn all_nodes_lladdr(link: &Link) -> Vec<u8> {
    multicast_lladdr(link, ALL_NODES)
}

/// The hardware address of a multicast group, as ipv6_eth_mc_map and ipv6_ib_mc_map of the kernel compute it.
fn multicast_lladdr(link: &Link, group: Ipv6Addr) -> Vec<u8> {
    let group = group.octets();
    let broadcast = &link.broadcast;
    if broadcast.len() != 20 {
        return [&[0x33, 0x33][..], &group[12..]].concat();
    }
    let scope = 0x10 | (broadcast[5] & 0xf);
    let head = [0, 0xff, 0xff, 0xff, 0xff, scope, 0x60, 0x1b, broadcast[8], broadcast[9]];
    [&head[..], &group[6..]].concat()
}

/// Returns the IP address that the sender of the packet claims, and the sender's hardware address, which is empty
/// if the packet does not contain it. Returns `None` for other or malformed packets.
pub(super) fn claimed_address(packet: &[u8]) -> Option<(IpAddr, Vec<u8>)> {
    let kind = *packet.get(40)?;
    let known = kind == ADVERTISEMENT || kind == SOLICITATION;
    if packet.first()? >> 4 != 6 || *packet.get(6)? != ICMPV6 || *packet.get(7)? != 255 || !known {
        return None;
    }
    let from: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
    let target: [u8; 16] = packet.get(48..64)?.try_into().ok()?;
    // A solicitation claims its target only if it is a duplicate address detection probe (from `::`).
    if kind == SOLICITATION && !Ipv6Addr::from(from).is_unspecified() {
        return None;
    }
    let option = packet.get(64..).unwrap_or_default();
    let address = match option {
        [OPTION_TARGET_LLADDR, 1, address @ ..] if address.len() >= 6 => address[..6].to_vec(),
        [OPTION_TARGET_LLADDR, 3, _, _, address @ ..] if address.len() >= 20 => address[..20].to_vec(),
        _ => Vec::new(),
    };
    Some((IpAddr::from(target), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(length: usize) -> Link {
        let broadcast: Vec<u8> = match length {
            20 => vec![
                0, 0xff, 0xff, 0xff, 0xff, 0x12, 0x40, 0x1b, 0x80, 0x01, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff,
                0xff,
            ],
            _ => vec![0xff; 6],
        };
        Link { address: (1..=length as u8).collect(), broadcast, ..Link::default() }
    }

    #[test]
    fn infiniband_advertisement_has_a_24_byte_option() {
        let own: Ipv6Addr = "fd00::7".parse().unwrap();
        let packet = advertisement(&link(20), own);
        assert_eq!(packet[64..68], [OPTION_TARGET_LLADDR, 3, 0, 0]);
        assert_eq!(packet.len(), 64 + 24);
        assert_eq!(claimed_address(&packet), Some((own.into(), (1..=20).collect())));
        assert_eq!(claimed_address(&advertisement(&link(6), own)), Some((own.into(), (1..=6).collect())));
        for length in 0..64 {
            assert_eq!(claimed_address(&packet[..length]), None);
        }
    }

    #[test]
    fn multicast_groups_and_checksums_are_correct() {
        let own: Ipv6Addr = "fd00::1:2:abcd".parse().unwrap();
        assert_eq!(solicited_node_group(own).to_string(), "ff02::1:ff02:abcd");
        assert_eq!(solicited_node_lladdr(&link(6), own), [0x33, 0x33, 0xff, 0x02, 0xab, 0xcd]);
        let infiniband = solicited_node_lladdr(&link(20), own);
        assert_eq!(infiniband[..10], [0, 0xff, 0xff, 0xff, 0xff, 0x12, 0x60, 0x1b, 0x80, 0x01]);
        assert_eq!(infiniband[10..], [0, 0, 0, 0, 0, 1, 0xff, 0x02, 0xab, 0xcd]);
        // The checksum of a packet that contains its own checksum is zero.
        let packet = solicitation(&link(6), None, own);
        let (from, to): ([u8; 16], [u8; 16]) =
            (packet[8..24].try_into().unwrap(), packet[24..40].try_into().unwrap());
        assert_eq!(checksum(from.into(), to.into(), &packet[40..]), 0);
        assert_eq!(claimed_address(&packet), Some((own.into(), Vec::new())));
        assert_eq!(claimed_address(&solicitation(&link(6), Some("fd00::9".parse().unwrap()), own)), None);
    }
}
