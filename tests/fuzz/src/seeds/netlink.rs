//! Messages of the kernel.

/// Payloads of route and RDMA netlink messages: fixed headers followed by attributes, some of them nested.
pub fn netlink_messages() -> Vec<Vec<u8>> {
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
    let ipoib = [attribute(1, &0xffff_u16.to_ne_bytes()), attribute(2, &0_u16.to_ne_bytes())].concat();
    let info = [attribute(1, b"ipoib\0"), attribute(2, &ipoib)].concat();
    let vf =
        [number(5, 0), attribute(10, &[7; 16]), attribute(11, &[9; 16]), attribute(1, &[1; 36])].concat();
    let link = [
        vec![0; 16],
        attribute(3, b"ibs5f0\0"),
        number(4, 2044),
        attribute(1, &[0xfe; 20]),
        attribute(18, &info),
        attribute(23, &[1; 200]),
        attribute(52, &attribute(53, b"ib0\0")),
        number(21, 1),
        attribute(22, &attribute(1, &vf)),
    ]
    .concat();
    let hop = [
        16_u16.to_ne_bytes().to_vec(),
        vec![0, 0],
        3_u32.to_ne_bytes().to_vec(),
        attribute(5, &[10, 0, 0, 1]),
    ]
    .concat();
    let route = [
        vec![2, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0],
        attribute(1, &[10, 1, 0, 0]),
        number(4, 3),
        attribute(5, &[10, 0, 0, 1]),
        attribute(8, &number(2, 1400)),
        attribute(9, &hop),
        number(15, 254),
    ]
    .concat();
    let rule = [
        vec![2, 0, 32, 0, 100, 0, 0, 1, 0, 0, 0, 0],
        attribute(2, &[10, 0, 0, 7]),
        number(6, 1000),
        number(15, 500),
    ]
    .concat();
    let address =
        [vec![2, 24, 0, 0, 3, 0, 0, 0], attribute(1, &[10, 0, 0, 7]), attribute(2, &[10, 0, 0, 7])].concat();
    let rdma =
        [number(1, 4), attribute(2, b"mlx5_4\0"), number(3, 1), attribute(6, &[3; 8]), attribute(66, &[1])]
            .concat();
    vec![link, route, rule, address, rdma]
}
