//! Tests of virtual function messages against linux/if_link.h.

use super::*;

const GUID: Guid = Guid::new(0x0200_0000_0000_0101);

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    // Like the kernel, keep only the lower sixteen bits of the length.
    let length = (4 + value.len()) as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn guid_attribute_has_16_bytes_with_the_guid_at_offset_8() {
    let message = set_vf_message(12, guid_attribute(3, GuidKind::Port, GUID));
    let mut value = 3u32.to_ne_bytes().to_vec();
    value.extend([0; 4]);
    value.extend(0x0200_0000_0000_0101_u64.to_ne_bytes());
    assert_eq!(value.len(), 16);
    let mut expected = vec![0; 16];
    expected[4..8].copy_from_slice(&12u32.to_ne_bytes());
    expected.extend(attribute(22, &attribute(1, &attribute(11, &value))));
    assert_eq!((message.kind, message.payload), (19, expected));
    let node = set_vf_message(12, guid_attribute(3, GuidKind::Node, GUID));
    let list = node.attributes(16).next().unwrap().1.to_vec();
    let info = attr::iter(&list).next().unwrap().1.to_vec();
    assert_eq!(attr::iter(&info).next().unwrap(), (10, &value[..]));
}

/// One virtual function as rtnl_fill_vfinfo writes it: first the MAC attribute (36 bytes), then the others,
/// including link state and GUIDs.
fn info(vf: u32, state: u32, guid: u64) -> Vec<u8> {
    let index = vf.to_ne_bytes();
    let guid = [index.as_slice(), &[0; 4], &guid.to_ne_bytes()].concat();
    let body = [
        attribute(1, &[index.as_slice(), &[0; 32]].concat()),
        attribute(2, &[index.as_slice(), &[0; 8]].concat()),
        attribute(5, &[index, state.to_ne_bytes()].concat()),
        attribute(10, &guid),
        attribute(11, &guid),
        // IFLA_VF_VLAN_LIST is nested, so its first four bytes are not the VF index. The decoder must take
        // the index from the first attribute.
        attribute(12, &attribute(1, &[9; 12])),
    ];
    attribute(1, &body.concat())
}

fn reply(count: u32) -> RawMessage {
    let infos: Vec<u8> = (0..count).flat_map(|vf| info(vf, vf % 3, u64::from(vf))).collect();
    let payload = [
        vec![0; 16],
        attribute(3, b"ib0\0"),
        attribute(21, &count.to_ne_bytes()),
        attribute(22, &infos),
        attribute(52, &attribute(53, b"ibs5f0\0")),
    ];
    RawMessage { kind: 16, payload: payload.concat() }
}

#[test]
fn virtual_functions_are_decoded_with_link_state_and_guids() {
    let vfs = decode(&reply(3)).unwrap();
    let [zero, one, two] = vfs.as_slice() else { panic!("{vfs:?}") };
    assert_eq!(*zero, VfInfo { link_state: Some(VfLinkState::Auto), ..VfInfo::new(0) });
    assert_eq!((one.index, one.link_state), (1, Some(VfLinkState::Enable)));
    assert_eq!((one.node_guid, one.port_guid), (Some(Guid::new(1)), Some(Guid::new(1))));
    assert_eq!(two.link_state, Some(VfLinkState::Disable));
    assert_eq!(decode(&RawMessage { kind: 16, payload: vec![0; 16] }), None, "no VF list");
}

#[test]
fn vf_list_longer_than_its_length_field_is_decoded_completely() {
    for count in [252, 600, 1024] {
        let reply = reply(count);
        assert!(count < 500 || reply.payload.len() > 65_536);
        let vfs = decode(&reply).unwrap();
        assert_eq!(vfs.len(), count as usize);
        assert!(vfs.iter().enumerate().all(|(position, vf)| vf.index as usize == position));
    }
}

#[test]
fn truncated_vf_list_is_decoded_up_to_the_end() {
    let mut cut = reply(4);
    cut.payload.truncate(16 + 8 + 8 + 4 + 2 * info(0, 0, 0).len() + 7);
    assert_eq!(decode(&cut).unwrap().len(), 2);
}
