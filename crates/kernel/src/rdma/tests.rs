//! Tests of request and reply bytes against rdma/rdma_netlink.h and core/nldev.c, and of a kernel without RDMA.

use super::device::move_request;
use super::message::NldevCommand;
use super::system::{decode, mode_request};
use super::{NetnsMode, RdmaDeviceInfo, RdmaSocket};
use crate::netlink::{RawMessage, serialize};
use crate::{Errno, Error, Netns};
use ferroband_model::FaultCode;
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader};

/// Encodes an attribute: the length including the attribute header, the type, and the value padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Encodes a request: struct nlmsghdr with REQUEST | ACK, sequence 7 and port 0, followed by `attributes`.
fn request(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = attributes.concat();
    let mut bytes = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([5u16.to_ne_bytes(), [7, 0], [0, 0], [0, 0], [0, 0]].concat());
    bytes.extend(body);
    bytes
}

fn sent(message: &RawMessage) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK;
    header.sequence_number = 7;
    serialize(header, message)
}

#[test]
fn message_type_is_client_5_and_the_command() {
    let kinds = [NldevCommand::Get, NldevCommand::Set, NldevCommand::SysGet, NldevCommand::SysSet];
    assert_eq!(kinds.map(NldevCommand::kind), [0x1401, 0x1402, 0x1406, 0x1407]);
}

#[test]
fn move_request_contains_index_and_descriptor() {
    let expected = request(0x1402, &[attribute(1, &3u32.to_ne_bytes()), attribute(68, &9u32.to_ne_bytes())]);
    assert_eq!(sent(&NldevCommand::Set.message(move_request(3, 9))), expected);
    assert_eq!(expected.len(), 32);
}

#[test]
fn netns_mode_is_one_byte_and_exclusive_is_zero() {
    for (mode, byte) in [(NetnsMode::Exclusive, 0), (NetnsMode::Shared, 1)] {
        let message = NldevCommand::SysSet.message(mode_request(mode));
        assert_eq!(sent(&message), request(0x1407, &[attribute(66, &[byte])]));
        let reply =
            RawMessage { kind: 0x1406, payload: [attribute(93, &[0]), attribute(66, &[byte])].concat() };
        assert_eq!(decode(&reply), Some(mode));
    }
    assert_eq!(decode(&RawMessage { kind: 0x1406, payload: attribute(93, &[0]) }), None);
    assert_eq!(serde_json::to_string(&NetnsMode::Exclusive).unwrap(), "\"exclusive\"");
}

/// The payload has the attributes of fill_nldev_handle and fill_dev_info (core/nldev.c) in the kernel's order.
/// Attributes of type 0 align 64-bit values.
#[test]
fn rdma_device_is_decoded_among_other_attributes() {
    let payload = [
        attribute(1, &2u32.to_ne_bytes()),
        attribute(2, b"mlx5_2\0"),
        attribute(3, &1u32.to_ne_bytes()),
        attribute(4, &0x21_2000u64.to_ne_bytes()),
        attribute(5, b"20.31.1014\0"),
        attribute(0, &[]),
        attribute(6, &0x0200_0000_0000_0101_u64.to_ne_bytes()),
        attribute(7, &0x248a_0703_00a1_b2c2_u64.to_ne_bytes()),
        attribute(14, &[1]),
        attribute(87, &[1]),
        attribute(67, b"ib\0"),
    ]
    .concat();
    let device = RdmaDeviceInfo::decode(&RawMessage { kind: 0x1401, payload: payload.clone() }).unwrap();
    assert_eq!((device.index, device.name.as_str()), (2, "mlx5_2"));
    assert_eq!(RdmaDeviceInfo::decode(&RawMessage { kind: 0x1405, payload }), None, "another message type");
}

/// The running kernel may support RDMA, as in the VM of the `vm` test tier, or not. The test covers both.
#[test]
fn running_kernel_answers_or_reports_missing_rdma() {
    match RdmaSocket::open() {
        Err(error) => {
            assert!(matches!(error, Error::NoRdma), "{error:?}");
            assert_eq!(
                (error.errno(), error.fault().code),
                (Some(Errno::EPROTONOSUPPORT), FaultCode::NoRdma)
            );
            let inside = RdmaSocket::open_in(&Netns::current().unwrap()).unwrap_err();
            assert!(matches!(inside, Error::NoRdma), "{inside:?}");
        }
        Ok(mut rdma) => {
            let devices = rdma.devices().unwrap();
            for device in &devices {
                assert_eq!(rdma.device(&device.name).unwrap(), *device);
            }
            rdma.netns_mode().unwrap();
            let error = rdma.move_device("no-such-device", &Netns::current().unwrap()).unwrap_err();
            assert!(matches!(error, Error::NoRdmaDevice { .. }), "{error:?}");
        }
    }
}
