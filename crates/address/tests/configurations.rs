//! Tests of Spiderpool's pools and configurations and of Whereabouts' flat file, through the public interface.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_address::spiderpool::{
    IpPool, IpPoolSpec, PerFamily, PodNic, PoolPreference, PoolSelection, PoolSelectionContext,
    SpiderpoolConfig,
};
use ferroband_address::whereabouts::merge_flat_file;
use ferroband_address::{Error, IpamWarning};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn v4_pool(name: &str, ips: &str) -> IpPoolSpec {
    IpPoolSpec {
        name: name.into(),
        subnet: "172.91.0.0/16".into(),
        ips: vec![ips.into()],
        gateway: Some("172.91.0.1".into()),
        ..IpPoolSpec::default()
    }
}

fn v6_pool(name: &str) -> IpPoolSpec {
    IpPoolSpec {
        name: name.into(),
        subnet: "fd00:91::/64".into(),
        ips: vec!["fd00:91::100-fd00:91::120".into()],
        gateway: Some("fd00:91::1".into()),
        ..IpPoolSpec::default()
    }
}

fn select(specs: &[IpPoolSpec], preference: PoolPreference) -> PoolSelection {
    let pools: BTreeMap<String, Result<Arc<IpPool>, Error>> =
        specs.iter().map(|spec| (spec.name.clone(), IpPool::from_spec(spec).map(Arc::new))).collect();
    let (none, namespaces) = (BTreeMap::new(), Vec::new());
    let context = PoolSelectionContext {
        pod_annotations: &none,
        pod_labels: &none,
        namespace: "ns",
        namespace_annotations: &none,
        namespace_labels: &none,
        node: "n1",
        node_labels: &none,
        pools: &pools,
        reserved: &[],
        enabled: PerFamily { v4: true, v6: true },
        network_namespaces: &namespaces,
    };
    let config = SpiderpoolConfig { preference, warnings: Vec::new() };
    let nic = PodNic { interface: "net1", position: 0, network: None };
    PoolSelection::select(&context, &nic, &config).unwrap().unwrap()
}

fn v4_names(specs: &[IpPoolSpec], names: &[&str]) -> Vec<String> {
    let v4 = names.iter().map(|name| (*name).to_owned()).collect();
    let selection = select(specs, PoolPreference { v4, ..PoolPreference::default() });
    selection.pools.v4.iter().map(|pool| pool.addresses.name().to_owned()).collect()
}

fn ignored(pool: &IpPool) -> Vec<&str> {
    let field = |warning: &'_ IpamWarning| match warning {
        IpamWarning::Ignored { field, .. } => field.clone(),
        other => panic!("{other:?}"),
    };
    let fields: Vec<String> = pool.warnings.iter().map(field).collect();
    ["ips", "vlan", "subnet"].into_iter().filter(|name| fields.iter().any(|field| field == name)).collect()
}

#[test]
fn range_must_be_inside_the_subnet_with_both_ends() {
    for ips in ["172.91.0.100-172.92.0.5", "172.90.255.250-172.91.0.5", "172.92.0.1-172.92.0.2"] {
        let error = IpPool::from_spec(&v4_pool("p", ips)).unwrap_err();
        assert!(matches!(error, Error::InvalidPool { ref field, .. } if field == "ips"), "{error}");
    }
}

#[test]
fn gateway_is_never_assigned_and_is_reported_unless_excluded() {
    let gateway = "172.91.0.1".parse().unwrap();
    let mut spec = v4_pool("p", "172.91.0.1-172.91.0.10");
    let pool = IpPool::from_spec(&spec).unwrap();
    assert_eq!((pool.total(), ignored(&pool)), (9, vec!["ips"]));
    assert!(!pool.addresses.contains(gateway));
    spec.exclude_ips = vec!["172.91.0.1-172.91.0.2".into()];
    let pool = IpPool::from_spec(&spec).unwrap();
    assert_eq!((pool.total(), ignored(&pool)), (8, vec![]));
    assert!(!pool.addresses.contains(gateway));
}

#[test]
fn vlan_is_ignored_with_a_warning_unless_it_is_0() {
    for (vlan, expected) in [(None, vec![]), (Some(0), vec![]), (Some(5), vec!["vlan"])] {
        let spec = IpPoolSpec { vlan, ..v4_pool("p", "172.91.0.5") };
        assert_eq!(ignored(&IpPool::from_spec(&spec).unwrap()), expected, "{vlan:?}");
    }
}

#[test]
fn pattern_selects_pools_of_its_family_that_match() {
    let specs = [v4_pool("a-4", "172.91.0.5"), v4_pool("b-4", "172.91.0.6"), v6_pool("a-6")];
    assert_eq!(v4_names(&specs, &["a-*"]), ["a-4"]);
    assert_eq!(v4_names(&specs, &["*"]), ["a-4", "b-4"]);
}

#[test]
fn active_pools_come_before_disabled_ones() {
    let disabled = IpPoolSpec { disable: true, ..v4_pool("a", "172.91.0.5") };
    let specs = [disabled, v4_pool("b", "172.91.0.6")];
    assert_eq!(v4_names(&specs, &["a", "b"]), ["b", "a"]);
}

#[test]
fn default_route_has_the_family_of_the_gateway() {
    let specs = [v4_pool("four", "172.91.0.5"), v6_pool("six")];
    let names = |name: &str| vec![name.to_owned()];
    let selection =
        select(&specs, PoolPreference { v4: names("four"), v6: names("six"), clean_gateway: false });
    let assigned = [
        ("172.91.0.5/16".parse().unwrap(), Some("172.91.0.1".parse().unwrap())),
        ("fd00:91::100/64".parse().unwrap(), Some("fd00:91::1".parse().unwrap())),
    ];
    let routes = selection.routes(&assigned);
    let routes: Vec<_> = routes.iter().map(|route| (route.dst.to_string(), route.gw.unwrap())).collect();
    let expected = [("0.0.0.0/0", "172.91.0.1"), ("::/0", "fd00:91::1")];
    assert_eq!(routes, expected.map(|(dst, gw)| (dst.to_owned(), gw.parse().unwrap())));
}

#[test]
fn spiderpool_configuration_is_read_from_the_ipam_object() {
    let plugin = object(json!({"type": "ib-sriov", "ipam": {
        "type": "spiderpool", "default_ipv4_ippool": ["a", "b"], "default_ipv6_ippool": ["c"],
        "clean_gateway": true, "match_master_subnet": true,
    }}));
    assert!(SpiderpoolConfig::applies_to(&plugin));
    let SpiderpoolConfig { preference, warnings } = SpiderpoolConfig::from_plugin(&plugin).unwrap();
    assert_eq!((preference.v4.join(","), preference.v6.join(",")), ("a,b".to_owned(), "c".to_owned()));
    assert_eq!((preference.clean_gateway, warnings.len()), (true, 1));
    for other in [json!({}), json!({"ipam": {}}), json!({"ipam": {"type": "whereabouts"}})] {
        assert!(!SpiderpoolConfig::applies_to(&object(other.clone())), "{other}");
    }
    assert_eq!(SpiderpoolConfig::from_plugin(&object(json!({}))), Err(Error::NoIpam));
}

#[test]
fn flat_file_fills_empty_values_also_inside_of_objects() {
    let flat = object(json!({
        "kubernetes": {"kubeconfig": "/flat", "k8s_api_root": "https://flat"}, "number": 5, "other": 6,
        "empty": {"a": 1}, "flag": true,
    }));
    let ipam = object(json!({
        "kubernetes": {"kubeconfig": "/own"}, "number": 0, "other": 7, "empty": {}, "flag": false,
    }));
    let expected = json!({
        "kubernetes": {"kubeconfig": "/own", "k8s_api_root": "https://flat"}, "number": 5, "other": 7,
        "empty": {"a": 1}, "flag": true,
    });
    assert_eq!(Value::Object(merge_flat_file(&ipam, &flat)), expected);
}
