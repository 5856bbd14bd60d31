use super::*;
use crate::protocol::result::ResultIp;

#[test]
fn if_inet6_lines_are_parsed() {
    let line = "fd000000000000000000000000000005 0b 40 00 c8     net1";
    assert_eq!(parse_if_inet6(line), Some(("net1", "fd00::5".parse().unwrap(), 0xc8)));
    assert_eq!(parse_if_inet6("nonsense"), None);
    assert_eq!(parse_if_inet6(""), None);
}

#[test]
fn the_first_gateway_of_the_family_is_used() {
    let ip = |address: &str, gateway: Option<&str>| ResultIp {
        interface: Some(0),
        address: address.parse().unwrap(),
        gateway: gateway.map(|gateway| gateway.parse().unwrap()),
    };
    let result = CniResult {
        ips: vec![
            ip("10.0.0.2/24", None),
            ip("fd00::2/64", Some("fd00::1")),
            ip("10.1.0.2/24", Some("10.1.0.1")),
            ip("10.2.0.2/24", Some("10.2.0.1")),
        ],
        ..CniResult::default()
    };
    assert_eq!(gateway_for(&result, "0.0.0.0".parse().unwrap()), Some("10.1.0.1".parse().unwrap()));
    assert_eq!(gateway_for(&result, "::".parse().unwrap()), Some("fd00::1".parse().unwrap()));
    assert_eq!(gateway_for(&CniResult::default(), "::".parse().unwrap()), None);
}
