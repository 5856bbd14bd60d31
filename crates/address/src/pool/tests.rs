use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn pool(subnet: &str, windows: &[(&str, &str)], exclude: &[&str]) -> Result<AddressPool, Error> {
    let windows = windows.iter().map(|(low, high)| (low.parse().unwrap(), high.parse().unwrap()));
    let exclude: Vec<_> = exclude.iter().map(|text| Exclusion::parse("exclude", text).unwrap()).collect();
    AddressPool::new("p", IpSpace::default_space(), subnet.parse().unwrap(), windows, &exclude, None)
}

// Case: ipam W12, ipam W13
#[test]
fn excluded_addresses_are_not_assignable() {
    let all = [("192.168.1.1", "192.168.1.254")];
    let first = |exclude: &[&str]| {
        let pool = pool("192.168.1.0/24", &all, exclude).unwrap();
        pool.family().address(pool.ranges[0].0).to_string()
    };
    assert_eq!(first(&["192.168.1.0/28", "192.168.1.16/28"]), "192.168.1.32");
    assert_eq!(first(&["192.168.1.16/28", "192.168.1.0/27"]), "192.168.1.32"); // unsorted, overlapping
    assert_eq!(first(&["192.168.1.1"]), "192.168.1.2");
    assert_eq!(first(&["fd00::/8", "10.0.0.0/8"]), "192.168.1.1");
    let pool = pool("192.168.1.0/24", &all, &["192.168.1.10", "192.168.1.128/25"]).unwrap();
    assert_eq!(pool.ranges.len(), 2);
    assert_eq!(pool.capacity(), 127 - 1);
    assert!(!pool.contains("192.168.1.10".parse().unwrap()));
    assert!(!pool.contains("::".parse().unwrap()));
}

#[test]
fn pools_overlap_only_in_one_space_and_family() {
    let v4 = pool("10.0.0.0/24", &[("10.0.0.10", "10.0.0.20")], &[]).unwrap();
    let other = pool("10.0.0.0/24", &[("10.0.0.20", "10.0.0.30")], &[]).unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(v4.overlap(&other), Some((address("10.0.0.20"), address("10.0.0.20"))));
    let next = pool("10.0.0.0/24", &[("10.0.0.21", "10.0.0.30")], &[]).unwrap();
    assert_eq!(v4.overlap(&next), None);
    let elsewhere = AddressPool { space: IpSpace::network("b"), ..other };
    assert_eq!(v4.overlap(&elsewhere), None);
    // As integers, these are the same addresses.
    let v6 = pool("::10.0.0.0/120", &[("::10.0.0.10", "::10.0.0.20")], &[]).unwrap();
    assert_eq!(v4.overlap(&v6), None);
}

#[test]
fn withheld_address_can_be_kept_but_not_assigned() {
    let all = pool("10.0.0.0/24", &[("10.0.0.1", "10.0.0.254")], &[]).unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let part = all.withholding([(address("10.0.0.5"), address("10.0.0.6"))]);
    for (text, contains, can_keep) in [
        ("10.0.0.4", true, true),
        ("10.0.0.5", false, true),
        ("10.0.0.255", false, false),
        ("10.0.1.4", false, false),
        ("::10.0.0.4", false, false),
        ("::10.0.0.5", false, false),
    ] {
        let found = (part.contains(address(text)), part.can_keep(address(text)));
        assert_eq!(found, (contains, can_keep), "{text}");
    }
    let none_assignable = all.withholding([(address("10.0.0.16"), address("10.0.0.31"))]);
    assert_eq!(none_assignable.offered_offsets(address("10.0.0.16")), 0);
    assert!(none_assignable.has_keepable_in(address("10.0.0.16")));
    assert!(!none_assignable.has_keepable_in(address("10.0.1.0")));
}

#[test]
fn closed_pool_assigns_nothing_and_takes_nothing_away() {
    let open = pool("10.0.0.0/24", &[("10.0.0.5", "10.0.0.9"), ("10.0.0.20", "10.0.0.20")], &[]).unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let ranges: Vec<_> = open.ranges().map(|(low, high)| format!("{low}-{high}")).collect();
    assert_eq!(ranges, ["10.0.0.5-10.0.0.9", "10.0.0.20-10.0.0.20"]);
    let closed = open.closed();
    assert_eq!((closed.capacity(), closed.ranges().count()), (0, 0));
    assert!(!closed.contains(address("10.0.0.5")) && closed.can_keep(address("10.0.0.5")));
}

#[test]
fn blocks_continue_after_the_last_searched_one() {
    let pool = pool("10.0.0.0/24", &[("10.0.0.5", "10.0.0.50"), ("10.0.0.90", "10.0.0.91")], &[]).unwrap();
    let from = |from: Option<&str>| {
        let from = from.map(|text| text.parse().unwrap());
        pool.blocks_from(from).map(|first| first.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(from(None), ["10.0.0.0", "10.0.0.16", "10.0.0.32", "10.0.0.48", "10.0.0.80"]);
    assert_eq!(from(Some("10.0.0.32")), ["10.0.0.32", "10.0.0.48", "10.0.0.80"]);
    assert_eq!(from(Some("10.0.0.64")), ["10.0.0.80"]);
    assert_eq!(from(Some("10.0.0.96")), [""; 0]);
}

// Case: ipam W14
#[test]
fn large_exclusion_takes_constant_time() {
    let subnet: IpNet = "2001:db8::/30".parse().unwrap();
    let last = ip_to_number(subnet.broadcast()) - 1;
    let window =
        [("2001:db8::1", IpFamily::V6.address(last))].map(|(low, high)| (low.parse().unwrap(), high));
    let exclude = [Exclusion::parse("exclude", "2001:db8::/32").unwrap()];
    let pool = AddressPool::new("p", IpSpace::default_space(), subnet, window, &exclude, None).unwrap();
    assert_eq!(pool.blocks_from(None).next(), Some("2001:db9::".parse().unwrap()));
    assert_eq!(pool.block_count(), 3 << (96 - 4));
}

#[test]
fn pool_without_usable_address_is_rejected() {
    assert_eq!(
        pool("10.0.0.0/30", &[("10.0.0.1", "10.0.0.2")], &["10.0.0.0/8"]),
        Err(Error::NoUsableAddress { pool: "p".into() })
    );
    assert!(pool("10.0.0.0/24", &[("10.0.0.9", "10.0.0.1")], &[]).is_err());
    assert!(pool("10.0.0.0/24", &[("10.0.1.1", "10.0.1.9")], &[]).is_err());
}

#[test]
fn pool_at_the_end_of_the_address_space() {
    let pool = pool(
        "ffff:ffff:ffff:ffff::/64",
        &[("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
        &[],
    );
    let pool = pool.unwrap();
    assert_eq!(pool.blocks_from(None).count(), 1);
    assert_eq!(pool.offered_offsets("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0".parse().unwrap()), 0xfffe);
}

proptest! {
    /// Compares all queries of a pool with an enumeration of its addresses.
    #[test]
    fn ranges_blocks_and_offsets_agree(
        windows in prop::collection::vec((0u8..=255, 0u8..=255), 1..5),
        exclude in prop::collection::vec((0u8..=255, 25u8..=32), 0..5),
    ) {
        let address = |host: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, host));
        let holes: Vec<_> = exclude
            .iter()
            .map(|(host, prefix)| Exclusion(IpNet::new(address(*host), *prefix).unwrap().trunc()))
            .collect();
        let expected: Vec<u8> = (0..=255)
            .filter(|host| windows.iter().any(|(low, high)| (low..=high).contains(&host)))
            .filter(|host| !holes.iter().any(|Exclusion(net)| net.contains(&address(*host))))
            .collect();
        let bounds = windows.iter().map(|(low, high)| (address(*low), address(*high)));
        let pool = AddressPool::new("p", IpSpace::default_space(), "10.0.0.0/24".parse().unwrap(), bounds, &holes, None);
        let Ok(pool) = pool else {
            prop_assert!(expected.is_empty());
            return Ok(());
        };
        prop_assert_eq!(pool.capacity(), expected.len() as u128);
        let contained: Vec<u8> = (0..=255).filter(|host| pool.contains(address(*host))).collect();
        prop_assert_eq!(&contained, &expected);
        let firsts: Vec<IpAddr> = pool.blocks_from(None).collect();
        prop_assert_eq!(firsts.len() as u128, pool.block_count());
        let by_block: Vec<u8> = firsts
            .iter()
            .flat_map(|first| {
                let bits = pool.offered_offsets(*first);
                let base = ip_to_number(*first) as u8;
                (0..16).filter(move |offset| bits & (1 << offset) != 0).map(move |offset| base + offset)
            })
            .collect();
        prop_assert_eq!(by_block, expected);
    }
}

#[test]
fn pool_is_listed_by_regions_unless_it_has_many() {
    let regions = |subnet: &str, low: &str, high: &str| {
        let bounds = [(low.parse().unwrap(), high.parse().unwrap())];
        let subnet = subnet.parse().unwrap();
        let pool = AddressPool::new("p", IpSpace::default_space(), subnet, bounds, &[], None).unwrap();
        pool.scope().regions.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(regions("10.0.0.0/8", "10.0.15.250", "10.0.32.0"), ["10.0.0.0", "10.0.16.0", "10.0.32.0"]);
    assert_eq!(regions("10.0.0.0/16", "10.0.0.1", "10.0.255.254").len(), 16);
    assert_eq!(regions("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:fffe"), [""; 0], "the whole space");
    assert_eq!(regions("255.255.0.0/16", "255.255.255.0", "255.255.255.254"), ["255.255.240.0"]);
}
