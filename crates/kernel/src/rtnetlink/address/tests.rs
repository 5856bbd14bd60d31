use super::*;

#[test]
fn neighbour_message_matches_the_kernel_header() {
    let message = neighbour_message(7, "10.1.0.2".parse().unwrap(), &[2, 0, 0, 0, 0, 1]);
    let mut expected = vec![2, 0, 0, 0];
    expected.extend(7u32.to_ne_bytes());
    expected.extend(0x80u16.to_ne_bytes());
    expected.extend([0, 0]);
    expected.extend([8u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
    expected.extend([10, 1, 0, 2]);
    expected.extend([10u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
    expected.extend([2, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!((message.kind, message.payload), (28, expected));
}
