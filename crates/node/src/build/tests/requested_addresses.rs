//! Addresses that a pod requests: `ips` of the networks annotation and the other spellings.

use super::*;
use crate::caches::SpiderpoolInterface;

/// The spellings in which a pod or a runtime requests an address, each as networks annotation and network.
fn spellings(address: &str) -> Vec<(Value, Value)> {
    let mut capable = ipoib();
    capable["capabilities"] = json!({"ips": true});
    let bare = address.split('/').next().unwrap();
    vec![
        (json!([{"name": "a", "ips": [address]}]), ipoib()),
        (json!([{"name": "a", "ips": [bare]}]), ipoib()),
        (json!([{"name": "a", "ips": [address]}]), capable),
        (json!([{"name": "a", "cni-args": {"ips": [address]}}]), ipoib()),
        (json!([{"name": "a", "cni-args": {"IPs": [bare]}}]), ipoib()),
    ]
}

// Case: ipam W38
#[test]
fn address_outside_the_ranges_of_the_network_is_refused_in_every_spelling() {
    for address in ["10.77.99.1/24", "192.168.0.0/24", "192.168.0.255/24", "fd00::1/64"] {
        for (annotation, network) in spellings(address) {
            let fault = plan(&annotation.to_string(), &[("a", network)], json!({}))
                .map(|planned| format!("{:?}", planned.ip_requests))
                .expect_err(&annotation.to_string());
            assert_eq!(fault.code, FaultCode::InvalidAnnotation, "{fault}");
            assert_eq!(fault.what, "network default/a");
            let expected =
                [address.split('/').next().unwrap(), "192.168.0.0/24", "192.168.0.1-192.168.0.254"];
            assert!(expected.iter().all(|text| fault.cause.contains(text)), "{annotation}: {fault}");
        }
    }
}

#[test]
fn requested_address_of_the_range_replaces_the_assigned_one() {
    for (annotation, network) in spellings("192.168.0.77/16") {
        let planned = plan(&annotation.to_string(), &[("a", network)], json!({})).unwrap();
        let [ip_request] = planned.ip_requests.as_slice() else { panic!() };
        let [request] = ip_request.requests.as_slice() else { panic!("{annotation}: {ip_request:?}") };
        let pool = &request.pools[0];
        let ranges: Vec<_> = pool.ranges().map(|(low, high)| (low.to_string(), high.to_string())).collect();
        assert_eq!(ranges, [("192.168.0.77".into(), "192.168.0.77".into())], "{annotation}");
        assert_eq!((pool.name(), pool.subnet().prefix_len()), ("192.168.0.0/24", 24), "the pool's prefix");
        assert_eq!(ip_request.build_assigned(Vec::new()).ips, [], "no address besides the recorded one");
    }
}

#[test]
fn network_without_a_pool_gets_requested_addresses_as_upstream() {
    let mut network = ipoib();
    network["ipam"] = json!({"type": "whereabouts", "addresses": [{"address": "10.1.0.1/24"}]});
    let annotation = json!([{"name": "a", "ips": ["10.2.0.5/24"]}]);
    let planned = plan(&annotation.to_string(), &[("a", network)], json!({})).unwrap();
    let assigned = planned.ip_requests[0].build_assigned(Vec::new());
    let addresses: Vec<_> = assigned.ips.iter().map(|ip| ip.address.to_string()).collect();
    assert_eq!(addresses, ["10.1.0.1/24", "10.2.0.5/24"]);
}

#[test]
fn invalid_requested_addresses_are_refused() {
    for ips in [json!("192.168.0.7"), json!([7]), json!(["192.168.0.7/33"]), json!(["x"]), json!([""])] {
        let annotation = json!([{"name": "a", "cni-args": {"ips": ips}}]);
        let fault = plan(&annotation.to_string(), &[("a", ipoib())], json!({})).unwrap_err();
        assert!(fault.cause.contains("args.cni.ips"), "{fault}");
    }
}

#[test]
fn ipam_call_of_a_foreign_plugin_checks_the_requested_addresses() {
    let request = |ips: &[&str]| {
        AttachmentIpRequests::for_interface(&ResolvedInterface {
            pod: resolved_pod(&facts("")),
            interface: SpiderpoolInterface { name: "net1".into(), ..Default::default() },
            config: ipoib().as_object().unwrap().clone(),
            ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
        })
    };
    assert_eq!(request(&["10.77.99.1/24"]).unwrap_err().code, FaultCode::InvalidAnnotation);
    let inside = request(&["192.168.0.77/24"]).unwrap();
    assert_eq!(inside.requests[0].pools[0].capacity(), 1);
}
