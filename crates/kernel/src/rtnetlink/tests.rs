//! Tests of request bytes against linux/netlink.h, linux/rtnetlink.h and linux/if_link.h.

use super::create::{LinkKind, NewLink};
use super::link::{IpoibInfo, Link};
use crate::IpoibMode;
use crate::netlink::{RawMessage, serialize};
use ferroband_model::PKey;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};

/// Encodes an attribute: the length including the attribute header, the type, and the value padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn request(link: &NewLink<'_>) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    header.sequence_number = 7;
    serialize(header, &link.message())
}

/// The bytes that `ip link add link PARENT name NAME type ipoib pkey 0x7fff mode datagram umcast 1` of iproute2
/// 6.1 sends: RTM_NEWLINK with exactly IFLA_IFNAME, IFLA_LINK and IFLA_LINKINFO { kind, data { pkey, mode, umcast
/// } }.
fn expected(name: &[u8], parent: u32, pkey: u16, mode: u16) -> Vec<u8> {
    let data = [
        attribute(1, &pkey.to_ne_bytes()), // IFLA_IPOIB_PKEY
        attribute(2, &mode.to_ne_bytes()), // IFLA_IPOIB_MODE
        attribute(3, &1u16.to_ne_bytes()), // IFLA_IPOIB_UMCAST
    ]
    .concat();
    let info = [
        attribute(1, b"ipoib\0"), // IFLA_INFO_KIND
        attribute(2, &data),      // IFLA_INFO_DATA
    ]
    .concat();
    let body = [
        vec![0; 16],                         // struct ifinfomsg: no family, type, index, flags, change
        attribute(3, name),                  // IFLA_IFNAME
        attribute(5, &parent.to_ne_bytes()), // IFLA_LINK
        attribute(18, &info),                // IFLA_LINKINFO
    ]
    .concat();
    let mut message = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
    message.extend(16u16.to_ne_bytes()); // RTM_NEWLINK
    message.extend(0x0605u16.to_ne_bytes()); // REQUEST | ACK | EXCL | CREATE
    message.extend(7u32.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(body);
    message
}

// Case: cni 19
#[test]
fn child_of_default_partition_in_datagram_mode_matches_iproute2() {
    let kind = LinkKind::Ipoib { parent: 12, pkey: PKey::DEFAULT, mode: IpoibMode::Datagram };
    let link = NewLink::new("veth0a1b2c3d", kind);
    assert_eq!(request(&link), expected(b"veth0a1b2c3d\0", 12, 0x7fff, 0));
}

// Case: cni 20
#[test]
fn child_of_partition_5_in_connected_mode_matches_iproute2() {
    let pkey = PKey::new(0x8005).unwrap();
    let link = NewLink::new("net1", LinkKind::Ipoib { parent: 3, pkey, mode: IpoibMode::Connected });
    assert_eq!(request(&link), expected(b"net1\0", 3, 0x0005, 1));
}

/// The kernel's reply about an IPoIB interface (rtnl_fill_ifinfo with ipoib_fill_info), reduced to the relevant
/// attributes.
fn reply(kind: &[u8], pkey: u16, mode: u16) -> Vec<u8> {
    let data = [
        attribute(1, &pkey.to_ne_bytes()),
        attribute(2, &mode.to_ne_bytes()),
        attribute(3, &0u16.to_ne_bytes()),
    ]
    .concat();
    let info = [attribute(1, kind), attribute(2, &data)].concat();
    let mut address = vec![0, 0, 0, 0x48, 0xfe, 0x80, 0, 0, 0, 0, 0, 0];
    address.extend([0x24, 0x8a, 0x07, 0x03, 0, 0xa1, 0xb2, 0xc3]);
    let body = [
        vec![0, 0], // AF_UNSPEC
        Link::ARPHRD_INFINIBAND.to_ne_bytes().to_vec(),
        4u32.to_ne_bytes().to_vec(),
        0x0001_1043u32.to_ne_bytes().to_vec(), // IFF_UP | BROADCAST | RUNNING | MULTICAST | LOWER_UP
        0u32.to_ne_bytes().to_vec(),
        attribute(3, b"ibs5f0\0"),
        attribute(4, &2044u32.to_ne_bytes()),
        attribute(1, &address),
        attribute(18, &info),
        attribute(52, &attribute(53, b"ib0\0")), // IFLA_PROP_LIST { IFLA_ALT_IFNAME }
    ]
    .concat();
    let mut message = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
    message.extend(16u16.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

fn decode(bytes: &[u8]) -> Link {
    match NetlinkMessage::<RawMessage>::deserialize(bytes).unwrap().payload {
        NetlinkPayload::InnerMessage(message) => Link::decode(&message).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ipoib_interface_is_decoded_completely() {
    let link = decode(&reply(b"ipoib\0", 0xffff, 0));
    assert_eq!((link.index, link.name.as_str(), link.mtu), (4, "ibs5f0", 2044));
    assert_eq!(link.altnames, ["ib0"]);
    assert_eq!((link.up, link.carrier, link.link_type), (true, true, 32));
    assert_eq!(link.kind.as_deref(), Some("ipoib"));
    assert_eq!(link.address.len(), 20);
    assert_eq!(link.address[12..], [0x24, 0x8a, 0x07, 0x03, 0, 0xa1, 0xb2, 0xc3]);
    assert_eq!(link.ipoib, Some(IpoibInfo { pkey: PKey::DEFAULT, mode: IpoibMode::Datagram }));
    assert_eq!(decode(&reply(b"ipoib\0", 0x8005, 1)).ipoib.unwrap().mode, IpoibMode::Connected);
}

#[test]
fn ipoib_info_is_absent_without_a_valid_pkey() {
    assert_eq!(decode(&reply(b"ipoib\0", 0x8000, 0)).ipoib, None);
    assert_eq!(decode(&reply(b"veth\0", 0xffff, 0)).ipoib, None);
}
