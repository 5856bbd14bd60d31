use super::*;
use crate::netlink::attr;

#[test]
fn padding_and_flags_are_skipped() {
    let mut bytes = [5u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat();
    bytes.extend([7, 0, 0, 0]);
    bytes.extend([8u16.to_ne_bytes(), (2u16 | 0x8000).to_ne_bytes()].concat());
    bytes.extend(9u32.to_ne_bytes());
    let decoded: Vec<_> = iter(&bytes).map(|(kind, value)| (kind, value.to_vec())).collect();
    assert_eq!(decoded, [(1, vec![7]), (2, 9u32.to_ne_bytes().to_vec())]);
}

#[test]
fn truncated_attributes_end_the_iteration() {
    for cut in [&[][..], &[8, 0], &[8, 0, 1, 0, 9], &[0, 0, 1, 0], &[3, 0, 1, 0]] {
        assert_eq!(iter(cut).count(), 0, "{cut:?}");
    }
    // The last attribute must be decoded although it is not padded to four bytes.
    assert_eq!(iter(&[5, 0, 1, 0, 9]).count(), 1);
}

#[test]
fn values() {
    assert_eq!(text(b"ib0\0junk"), "ib0");
    assert_eq!(text(b"ib0"), "ib0");
    assert_eq!((u16(&[1]), u32(&[1, 2])), (None, None));
    assert_eq!(ip(&[10, 0, 0, 1]), Some(Ipv4Addr::new(10, 0, 0, 1).into()));
    assert_eq!(ip(&[0; 16]), Some(Ipv6Addr::UNSPECIFIED.into()));
    assert_eq!(ip(&[0; 5]), None);
}

#[test]
fn built_message_can_be_decoded() {
    let nest = MessageBuilder::default().with(1, &7u32.to_ne_bytes());
    let message = MessageBuilder::new(&[9; 4]).with_text(3, "ib0").with_nest(22, &nest).build(19);
    assert_eq!(message.head::<4>(19), Some(&[9; 4]));
    assert_eq!(message.head::<4>(18), None, "another message type");
    let attributes: Vec<_> = message.attributes(4).collect();
    assert_eq!(attributes[0], (3, &b"ib0\0"[..]));
    assert_eq!(attr::iter(attributes[1].1).collect::<Vec<_>>(), [(1, &7u32.to_ne_bytes()[..])]);
}

#[test]
fn value_that_is_too_long_is_truncated() {
    let message = MessageBuilder::default().with(1, &[1; 70_000]).build(1);
    let [(kind, value)] = message.attributes(0).collect::<Vec<_>>()[..] else { panic!("one attribute") };
    assert_eq!((kind, value.len()), (1, 65_531));
}
