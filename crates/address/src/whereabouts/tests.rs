use super::*;
use serde_json::json;

fn parse(ipam: Value) -> Result<WhereaboutsConfig, Error> {
    WhereaboutsConfig::parse(ipam.as_object().unwrap())
}

#[track_caller]
fn parsed(ipam: Value) -> WhereaboutsConfig {
    parse(ipam).unwrap()
}

fn names(whereabouts: &WhereaboutsConfig) -> Vec<String> {
    whereabouts.pools.iter().map(|pool| pool.to_string()).collect()
}

#[test]
fn document_000_sets_only_range() {
    let config = json!({"type": "ipoib", "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}});
    let parsed = WhereaboutsConfig::from_plugin(config.as_object().unwrap()).unwrap();
    let [pool] = &parsed.pools[..] else { panic!("{parsed:?}") };
    assert_eq!((pool.subnet().to_string(), pool.capacity()), ("192.168.0.0/24".into(), 254));
    assert_eq!((pool.space().as_str(), pool.gateway()), ("default", None));
    assert_eq!(
        (parsed.static_addresses.len(), parsed.routes.len(), parsed.dns, parsed.warnings),
        (0, 0, None, vec![])
    );
}

// Case: ipam W17, ipam W18
#[test]
fn interface_gets_one_address_per_range_starting_with_the_top_level() {
    let dual = parsed(
        json!({"type": "whereabouts", "ipRanges": [{"range": "192.168.10.1/24"}, {"range": "abcd::1/64"}]}),
    );
    assert_eq!(names(&dual), ["192.168.10.0/24", "abcd::/64"]);
    let both = parsed(
        json!({"type": "whereabouts", "range": "abcd::1/64", "ipRanges": [{"range": "192.168.10.1/24"}]}),
    );
    assert_eq!(names(&both), ["abcd::/64", "192.168.10.0/24"]);
}

#[test]
fn requests_number_the_addresses_of_each_family() {
    let many = parsed(
        json!({"type": "whereabouts", "range": "10.0.0.0/24", "ipRanges": [{"range": "10.0.0.0/24"}, {"range": "fd00::/64"}]}),
    );
    let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
    let requests = many.requests(&pod, false, "net1", "c1");
    let ordinals: Vec<_> = requests.iter().map(|r| (r.pools[0].family(), r.ordinal)).collect();
    assert_eq!(ordinals, [(IpFamily::V4, 0), (IpFamily::V4, 1), (IpFamily::V6, 0)]);
}

#[test]
fn start_end_and_exclude_apply_to_their_range() {
    let parsed = parsed(json!({
        "type": "whereabouts", "range": "192.168.1.0/24", "range_start": "192.168.1.5", "range_end": "192.168.1.12",
        "exclude": ["192.168.1.6", "192.168.1.8/31"],
        "ipRanges": [{"range": "10.0.0.0/29", "exclude": ["10.0.0.1"]}],
    }));
    assert_eq!(names(&parsed), ["192.168.1.5-192.168.1.12/24", "10.0.0.0/29"]);
    assert_eq!(parsed.pools[0].capacity(), 5);
    assert_eq!(parsed.pools[1].capacity(), 5);
}

// Case: ipam W22, ipam W24
#[test]
fn space_depends_on_network_name_and_overlap() {
    let space = |extra: Value| {
        let mut ipam = json!({"type": "whereabouts", "range": "10.0.0.0/24"});
        ipam.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        parsed(ipam).pools[0].space().clone()
    };
    assert_eq!(space(json!({})), IpSpace::default_space());
    assert_eq!(
        space(json!({"enable_overlapping_ranges": true, "network_name": ""})),
        IpSpace::default_space()
    );
    assert_eq!(space(json!({"enable_overlapping_ranges": false})).as_str(), "pool/10.0.0.0/24");
    assert_eq!(space(json!({"network_name": "a"})).as_str(), "network/a");
}

// Case: ipam W38
#[test]
fn static_addresses_routes_dns_and_gateway_are_read() {
    let parsed = parsed(json!({
        "type": "whereabouts", "range": "10.10.0.0/24", "gateway": "10.10.0.254", "ipRanges": [{"range": "fd00::/64"}],
        "addresses": [{"address": "10.20.0.1/24", "gateway": "10.20.0.254"}, {"address": "fd01::5/64"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.10.0.254"}, {"dst": "10.30.1.1/16", "mtu": 2044}],
        "dns": {"nameservers": ["10.0.0.53"]},
    }));
    assert_eq!(parsed.pools[0].gateway(), Some("10.10.0.254".parse().unwrap()));
    assert_eq!(parsed.pools[1].gateway(), None);
    let fixed: Vec<_> =
        parsed.static_addresses.iter().map(|f| (f.address.to_string(), f.gateway.is_some())).collect();
    assert_eq!(fixed, [("10.20.0.1/24".into(), true), ("fd01::5/64".into(), false)]);
    assert_eq!(parsed.routes[1].dst, "10.30.0.0/16".parse::<IpNet>().unwrap());
    assert_eq!(parsed.routes[1].extra, json!({"mtu": 2044}).as_object().cloned().unwrap());
    assert_eq!(parsed.dns, Some(json!({"nameservers": ["10.0.0.53"]})));
}

#[test]
fn static_addresses_need_no_range() {
    let parsed =
        parsed(json!({"type": "whereabouts", "addresses": [{"address": "10.20.0.1/24"}], "dns": {}}));
    assert_eq!((parsed.pools.len(), parsed.static_addresses.len(), parsed.dns), (0, 1, None));
    assert_eq!(parse(json!({"type": "whereabouts"})), Err(Error::NoRange));
}

#[test]
fn implementation_options_are_accepted_and_unknown_ones_warned() {
    let parsed = parsed(json!({
        "type": "whereabouts", "Range": "10.0.0.0/24", "datastore": "kubernetes", "etcd_host": "x", "log_file": "/tmp/x",
        "leader_lease_duration": 1500, "kubernetes": {"kubeconfig": "/k"}, "node_slice_size": "/26", "sleep_for_race": 0,
        "configuration_path": null, "colour": "red", "ipRanges": [{"range": "fd00::/64", "gateway": "fd00::1"}],
    }));
    let warned: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warned,
        ["unknown option colour has no effect", "unknown option ipRanges[0].gateway has no effect"]
    );
    assert_eq!(names(&parsed).len(), 2);
}

#[test]
fn malformed_bounds_are_ignored_only_at_the_top_level() {
    let dropped = parsed(
        json!({"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "ten", "range_end": "010.0.0.9"}),
    );
    assert_eq!(names(&dropped), ["10.0.0.1-10.0.0.9/24"]);
    assert_eq!(dropped.warnings.len(), 1);
    let strict =
        parse(json!({"type": "whereabouts", "ipRanges": [{"range": "10.0.0.0/24", "range_start": "ten"}]}));
    assert!(matches!(strict, Err(Error::InvalidAddress { field, .. }) if field == "ipRanges[0].range_start"));
}

#[test]
fn errors_name_the_field() {
    let message = |ipam: Value| parse(ipam).unwrap_err().to_string();
    assert_eq!(
        message(json!({"type": "host-local"})),
        "only interested in networks whose IPAM type is 'whereabouts'. This one was: host-local"
    );
    assert_eq!(
        WhereaboutsConfig::from_plugin(&Map::new()).unwrap_err().to_string(),
        "IPAM config missing 'ipam' key"
    );
    for (ipam, field) in [
        (json!({"type": "whereabouts", "range": 7}), "range must be a string"),
        (
            json!({"type": "whereabouts", "range": "10.0.0.0/24", "exclude": "10.0.0.1"}),
            "exclude must be a list",
        ),
        (json!({"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.1/99"]}), "exclude[0]"),
        (
            json!({"type": "whereabouts", "range": "10.0.0.0/24", "enable_overlapping_ranges": "no"}),
            "enable_overlapping_ranges must be",
        ),
        (json!({"type": "whereabouts", "range": "10.0.0.0/24", "gateway": "gw"}), "gateway: 'gw'"),
        (
            json!({"type": "whereabouts", "range": "10.0.0.0/24", "routes": [{"gw": "10.0.0.1"}]}),
            "routes[0].dst",
        ),
        (json!({"type": "whereabouts", "addresses": [{"address": "10.0.0.1"}]}), "addresses[0].address"),
        (json!({"type": "whereabouts", "ipRanges": ["10.0.0.0/24"]}), "ipRanges[0] must be an object"),
        (json!({"type": "whereabouts", "ipRanges": [{}]}), "ipRanges[0].range"),
    ] {
        let message = message(ipam);
        assert!(message.contains(field), "{message}");
    }
}
