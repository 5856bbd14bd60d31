use super::*;

fn parse(text: &str, start: Option<&str>, end: Option<&str>) -> Result<(IpRange, Vec<IpamWarning>), Error> {
    let mut warnings = Vec::new();
    let address = |text: &str| parse_lenient_address(text).unwrap();
    let range = IpRange::parse("range", text, start.map(address), end.map(address), &mut warnings)?;
    Ok((range, warnings))
}

#[track_caller]
fn offers(text: &str, start: Option<&str>, end: Option<&str>, first: &str, last: &str) -> Vec<IpamWarning> {
    let (range, warnings) = parse(text, start, end).unwrap();
    assert_eq!((range.first.to_string(), range.last.to_string()), (first.into(), last.into()), "{text}");
    warnings
}

// Case: ipam W06
#[test]
fn subnet_range_excludes_first_and_last_address() {
    offers("192.168.0.0/24", None, None, "192.168.0.1", "192.168.0.254");
    offers("192.168.2.225/28", None, None, "192.168.2.225", "192.168.2.238");
    offers("10.0.0.0/30", None, None, "10.0.0.1", "10.0.0.2");
    offers("abcd::1/64", None, None, "abcd::1", "abcd::ffff:ffff:ffff:fffe");
    offers("::1/126", None, None, "::1", "::2");
    offers("fd::1/116", None, None, "fd::1", "fd::ffe");
    offers("100::2:1/126", None, None, "100::2:1", "100::2:2");
    offers("0.0.0.0/0", None, None, "0.0.0.1", "255.255.255.254");
}

#[test]
fn first_and_last_usable_address_are_valid_limits() {
    let warnings = offers("10.0.0.0/24", Some("10.0.0.1"), Some("10.0.0.254"), "10.0.0.1", "10.0.0.254");
    assert_eq!(warnings, []);
    let warnings = offers("10.0.0.0/24", Some("10.0.0.9"), Some("10.0.0.9"), "10.0.0.9", "10.0.0.9");
    assert_eq!(warnings, []);
    let warnings = offers("10.0.0.0/24", None, Some("10.0.0.255"), "10.0.0.1", "10.0.0.254");
    assert_eq!(warnings.len(), 1, "the broadcast address");
}

// Case: ipam W16
#[test]
fn leading_zeros_are_decimal() {
    offers("00192.00168.1.0/24", None, None, "192.168.1.1", "192.168.1.254");
    assert_eq!(parse_lenient_address("010.0.0.08"), Some("10.0.0.8".parse().unwrap()));
    for wrong in
        ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2..4", "+1.2.3.4", "1.2.3.4/8", "100::2::1", "0x1.2.3.4"]
    {
        assert_eq!(parse_lenient_address(wrong), None, "{wrong}");
    }
}

// Case: ipam W07, ipam W08
#[test]
fn range_syntax_sets_first_and_last_address() {
    offers("192.168.1.5-192.168.1.25/24", None, None, "192.168.1.5", "192.168.1.25");
    offers("192.168.2.225-192.168.2.230/28", None, None, "192.168.2.225", "192.168.2.230");
    offers("fd00::5-fd00::9/64", None, None, "fd00::5", "fd00::9");
    let error = parse("192.168.1.5-192.168.2.25/28", None, None).unwrap_err();
    assert!(
        error.to_string().contains("invalid range start for CIDR 192.168.2.16/28: 192.168.1.5"),
        "{error}"
    );
}

// Case: ipam W09
#[test]
fn range_start_and_range_end_narrow_the_range() {
    let both =
        offers("192.168.1.0/24", Some("192.168.1.5"), Some("192.168.1.12"), "192.168.1.5", "192.168.1.12");
    assert_eq!(both, []);
}

// Case: ipam W10, ipam W11
#[test]
fn unusable_bounds_are_ignored_with_a_warning() {
    // An end before the start must be ignored with a warning.
    let warned = offers(
        "192.168.1.0/24",
        Some("192.168.1.200"),
        Some("192.168.1.100"),
        "192.168.1.200",
        "192.168.1.254",
    );
    assert!(
        matches!(&warned[..], [IpamWarning::Ignored { field, .. }] if field == "range_end"),
        "{warned:?}"
    );
    // A start outside the subnet must be ignored with a warning.
    let warned = offers("192.168.1.0/24", Some("10.0.0.1"), None, "192.168.1.1", "192.168.1.254");
    assert!(
        matches!(&warned[..], [IpamWarning::Ignored { field, .. }] if field == "range_start"),
        "{warned:?}"
    );
    let warned = offers("192.168.1.0/24", None, Some("192.168.1.255"), "192.168.1.1", "192.168.1.254");
    assert_eq!(warned.len(), 1);
    let warned = offers("192.168.1.0/24", Some("fd00::1"), Some("fd00::2"), "192.168.1.1", "192.168.1.254");
    assert_eq!(warned.len(), 2);
    // The network address as start must give no warning, because Whereabouts itself fills it in.
    assert_eq!(offers("192.168.1.0/24", Some("192.168.1.0"), None, "192.168.1.1", "192.168.1.254"), []);
}

#[test]
fn subnets_without_usable_addresses_are_rejected() {
    for text in ["10.0.0.0/31", "10.0.0.1/32", "fd00::/127", "fd00::1/128"] {
        assert!(matches!(parse(text, None, None), Err(Error::NoUsableAddress { .. })), "{text}");
    }
}

#[test]
fn malformed_ranges_name_the_field() {
    for text in [
        "",
        "192.168.0.0",
        "192.168.0.0/33",
        "192.168.0.0/",
        "192.168.0.0/+8",
        "a-b/24",
        "1.2.3.4-5.6.7.8",
        "fd00::/129",
    ] {
        let wrong = Error::InvalidRange { field: "range".into(), value: text.into() };
        assert_eq!(parse(text, None, None), Err(wrong), "{text}");
    }
}

// Case: ipam W15
#[test]
fn exclusions_are_subnets_or_addresses() {
    let exclusion = |text: &str| Exclusion::parse("exclude[0]", text).map(|Exclusion(net)| net.to_string());
    assert_eq!(exclusion("192.168.2.229/30").unwrap(), "192.168.2.228/30");
    assert_eq!(exclusion("192.168.0.1").unwrap(), "192.168.0.1/32");
    assert_eq!(exclusion("fd00::1").unwrap(), "fd00::1/128");
    for wrong in ["192.168.0.1/123", "100::2::1", "192.168.00.1", ""] {
        let message = exclusion(wrong).unwrap_err().to_string();
        assert!(message.starts_with("could not parse exclude range"), "{message}");
    }
}

#[test]
fn ranges_are_displayed_in_their_input_syntax() {
    let printed = |text, start, end| parse(text, start, end).unwrap().0.to_string();
    assert_eq!(printed("192.168.0.7/24", None, None), "192.168.0.0/24");
    assert_eq!(printed("192.168.0.0/24", Some("192.168.0.9"), None), "192.168.0.9-192.168.0.254/24");
}
