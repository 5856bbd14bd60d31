use super::*;
use crate::{Error, IpFamily};
use std::collections::BTreeMap;
use std::sync::Arc;

type StringMap = BTreeMap<String, String>;

fn strings(pairs: &[(&str, &str)]) -> StringMap {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A pool of the addresses `172.<third>.0.100` to `172.<third>.0.120`.
fn pool_spec(name: &str, third: u8) -> IpPoolSpec {
    IpPoolSpec {
        name: name.into(),
        subnet: format!("172.{third}.0.0/16"),
        ips: vec![format!("172.{third}.0.100-172.{third}.0.120")],
        gateway: Some(format!("172.{third}.0.1")),
        ..IpPoolSpec::default()
    }
}

/// Input of the pool selection: a pod, its namespace and node, and the pools.
struct PoolSelectionFixture {
    pod: StringMap,
    labels: StringMap,
    namespace: StringMap,
    namespace_labels: StringMap,
    node: &'static str,
    node_labels: StringMap,
    pools: BTreeMap<String, Result<Arc<IpPool>, Error>>,
    reserved: Vec<(std::net::IpAddr, std::net::IpAddr)>,
    v6: bool,
    homes: Vec<String>,
}

impl PoolSelectionFixture {
    fn new(pools: Vec<IpPoolSpec>) -> Self {
        let read = |pool: IpPoolSpec| (pool.name.clone(), IpPool::from_spec(&pool).map(Arc::new));
        Self {
            pod: StringMap::new(),
            labels: StringMap::new(),
            namespace: StringMap::new(),
            namespace_labels: StringMap::new(),
            node: "n1",
            node_labels: StringMap::new(),
            pools: pools.into_iter().map(read).collect(),
            reserved: Vec::new(),
            v6: true,
            homes: vec!["kube-system".into()],
        }
    }

    fn choose(
        &self,
        interface: &str,
        position: usize,
        config: &[&str],
    ) -> Result<Option<PoolSelection>, Error> {
        self.choose_on(interface, position, config, Some("kube-system/ib-sriov"))
    }

    fn choose_on(
        &self,
        interface: &str,
        position: usize,
        config: &[&str],
        network: Option<&str>,
    ) -> Result<Option<PoolSelection>, Error> {
        let context = PoolSelectionContext {
            pod_annotations: &self.pod,
            pod_labels: &self.labels,
            namespace: "ns",
            namespace_annotations: &self.namespace,
            namespace_labels: &self.namespace_labels,
            node: self.node,
            node_labels: &self.node_labels,
            pools: &self.pools,
            reserved: &self.reserved,
            enabled: PerFamily { v4: true, v6: self.v6 },
            network_namespaces: &self.homes,
        };
        let v4 = config.iter().map(|name| (*name).to_owned()).collect();
        let config = SpiderpoolConfig {
            preference: PoolPreference { v4, ..PoolPreference::default() },
            warnings: Vec::new(),
        };
        PoolSelection::select(&context, &PodNic { interface, position, network }, &config)
    }

    /// Returns the names of the eligible IPv4 pools of `eth0`.
    fn names(&self, config: &[&str]) -> Vec<String> {
        names(&self.choose("eth0", 0, config).unwrap().unwrap())
    }
}

fn names(choice: &PoolSelection) -> Vec<String> {
    choice.pools.v4.iter().map(|pool| pool.addresses.name().to_owned()).collect()
}

const A: &str = "172.91.0.100/16";

// Case: ipam A06
#[test]
fn first_level_that_names_a_pool_decides() {
    let mut cluster = pool_spec("cluster", 95);
    cluster.default = true;
    let all = ["pod", "namespace", "network"].iter().zip(91..);
    let mut pools: Vec<_> = all.map(|(name, third)| pool_spec(name, third)).collect();
    pools.push(cluster);
    let mut fixture = PoolSelectionFixture::new(pools);
    fixture.pod = strings(&[("ipam.spidernet.io/ippool", r#"{"ipv4":["pod"]}"#)]);
    fixture.namespace = strings(&[("ipam.spidernet.io/default-ipv4-ippool", r#"["namespace"]"#)]);
    assert_eq!(fixture.names(&["network"]), ["pod"]);
    fixture.pod.clear();
    assert_eq!(fixture.names(&["network"]), ["namespace"]);
    fixture.namespace.clear();
    assert_eq!(fixture.names(&["network"]), ["network"]);
    assert_eq!(fixture.names(&[]), ["cluster"]);
    fixture.pools.remove("cluster");
    assert_eq!(fixture.choose("eth0", 0, &[]).unwrap(), None);
    // There must be no fallback: the pod annotation names a pool, so it decides even though that pool does
    // not exist.
    fixture.pod = strings(&[("ipam.spidernet.io/ippool", r#"{"ipv4":["none"]}"#)]);
    let error = fixture.choose("eth0", 0, &["network"]).unwrap_err().to_string();
    assert!(error.contains("all IPv4 IPPools [none] of eth0 filtered out: none does not exist"), "{error}");
}

// Case: ipam A07
#[test]
fn ippools_annotation_takes_precedence_over_ippool() {
    let mut fixture = PoolSelectionFixture::new(vec![pool_spec("one", 91), pool_spec("two", 92)]);
    fixture.pod = strings(&[
        ("ipam.spidernet.io/ippool", r#"{"ipv4":["one"]}"#),
        ("ipam.spidernet.io/ippools", r#"[{"interface":"eth0","ipv4":["two"]}]"#),
    ]);
    assert_eq!(fixture.names(&[]), ["two"]);
}

// Case: ipam A10
#[test]
fn ippools_elements_without_interface_apply_by_position() {
    let mut fixture =
        PoolSelectionFixture::new((1..=3).map(|n| pool_spec(&format!("p{n}"), 90 + n)).collect());
    let list = r#"[{"ipv4":["p1"]},{"ipv4":["p2"]},{"ipv4":["p3"],"cleangateway":true}]"#;
    fixture.pod = strings(&[("ipam.spidernet.io/ippools", list)]);
    for (position, interface) in ["eth0", "net1", "net2"].into_iter().enumerate() {
        let choice = fixture.choose(interface, position, &[]).unwrap().unwrap();
        assert_eq!(names(&choice), [format!("p{}", position + 1)]);
        assert_eq!(choice.clean_gateway, position == 2);
    }
    assert!(fixture.choose("net3", 3, &[]).unwrap_err().to_string().contains("none for interface net3"));
}

#[test]
fn error_names_the_malformed_annotation() {
    let mut fixture = PoolSelectionFixture::new(vec![pool_spec("p", 91)]);
    for (key, text, cause) in [
        ("ippools", "{}", "must be a list"),
        ("ippools", "[7]", "must be an object"),
        ("ippools", "nonsense", "invalid JSON"),
        ("ippools", r#"[{"interface":"eth0","ipv4":["p"]},{"ipv4":["p"]}]"#, "either all elements"),
        (
            "ippools",
            r#"[{"interface":"eth0","ipv4":["p"]},{"interface":"eth0","ipv4":["p"]}]"#,
            "eth0 is listed twice",
        ),
        ("ippools", r#"[{"interface":"net1","ipv4":["p"]}]"#, "has no element for interface eth0"),
        ("ippools", r#"[{"interface":"eth0"}]"#, "names no pool"),
        ("ippool", r#"{"ipv4":"p"}"#, "must be a list"),
        ("ippool", "{}", "names no pool"),
        ("ippool", r#"{"ipv4":["p","p"]}"#, "listed twice"),
        ("subnets", "[]", "SpiderSubnets"),
        ("routes", r#"[{"dst":"x","gw":"172.91.0.2"}]"#, "is not a subnet"),
    ] {
        fixture.pod = strings(&[(&format!("ipam.spidernet.io/{key}"), text)]);
        let error = fixture.choose("eth0", 0, &["p"]).unwrap_err();
        assert!(error.to_string().contains(cause), "{text}: {error}");
        let code = error.fault("network n").code.reason();
        assert_eq!(code, "InvalidAnnotation", "{error}");
    }
}

// Case: ipam A12
#[test]
fn pools_of_equal_rank_keep_the_order_of_the_list() {
    let fixture = PoolSelectionFixture::new(vec![pool_spec("a", 91), pool_spec("b", 92), pool_spec("c", 93)]);
    assert_eq!(fixture.names(&["b", "a"]), ["b", "a"]);
    assert_eq!(fixture.names(&["c", "[ab]"]), ["c", "a", "b"]);
    assert_eq!(fixture.names(&["*", "b*"]), ["a", "b", "c"]);
    let mut precise = pool_spec("precise", 94);
    precise.affinity.node_names = vec!["n1".into()];
    let mut all = fixture;
    all.pools.insert("precise".into(), IpPool::from_spec(&precise).map(Arc::new));
    assert_eq!(all.names(&["a", "precise"]), ["precise", "a"], "more specific pools come first");
}

// Case: ipam A14, ipam A15
#[test]
fn pools_with_other_affinity_are_filtered_out_with_a_reason() {
    let selector =
        |key: &str, value: &str| LabelMatcher { labels: strings(&[(key, value)]), expressions: vec![] };
    let assert_rejected = |change: &dyn Fn(&mut IpPoolSpec), reason: &str| {
        let mut pool = pool_spec("p", 91);
        change(&mut pool);
        let fixture = PoolSelectionFixture::new(vec![pool]);
        let error = fixture.choose("eth0", 0, &["p"]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    assert_rejected(&|pool| pool.affinity.node_names = vec!["n2".into()], "p does not allow node n1");
    assert_rejected(&|pool| pool.affinity.nodes = Some(selector("rack", "1")), "p does not allow node n1");
    assert_rejected(
        &|pool| pool.affinity.namespace_names = vec!["other".into()],
        "p does not allow namespace ns",
    );
    assert_rejected(
        &|pool| pool.affinity.namespaces = Some(selector("team", "x")),
        "p does not allow namespace ns",
    );
    assert_rejected(
        &|pool| pool.affinity.pods = Some(selector("app", "x")),
        "p does not select the pod's labels",
    );
    assert_rejected(
        &|pool| pool.affinity.networks = vec!["kube-system/x".into()],
        "p does not allow network kube-system/ib-sriov",
    );
    // Node names must take precedence over node labels.
    let mut pool = pool_spec("p", 91);
    pool.affinity.node_names = vec!["n1".into()];
    pool.affinity.nodes = Some(selector("rack", "2"));
    pool.affinity.networks = vec!["ib-sriov".into()];
    pool.affinity.pods = Some(selector("app", "x"));
    let mut fixture = PoolSelectionFixture::new(vec![pool]);
    fixture.labels = strings(&[("app", "x")]);
    assert_eq!(fixture.names(&["p"]), ["p"]);
    let other_network =
        fixture.choose_on("net1", 1, &["p"], Some("default/ib-sriov")).unwrap_err().to_string();
    assert!(other_network.contains("p does not allow network default/ib-sriov"), "{other_network}");
}

// Case: ipam A16
#[test]
fn pool_without_networks_serves_an_unknown_network() {
    let fixture = PoolSelectionFixture::new(vec![pool_spec("p", 91)]);
    let choice = fixture.choose_on("eth0", 0, &["p"], None).unwrap().unwrap();
    assert_eq!(names(&choice), ["p"]);
}

// Case: ipam A18, ipam A19
#[test]
fn routes_come_from_pool_annotation_and_gateway() {
    let mut pool = pool_spec("p", 91);
    pool.routes = vec![("10.0.0.0/8".into(), "172.91.0.2".into())];
    let mut fixture = PoolSelectionFixture::new(vec![pool]);
    let routes = r#"[{"dst":"10.9.0.0/16","gw":"172.91.0.9"},{"dst":"10.8.0.0/16","gw":"192.168.0.1"}]"#;
    fixture.pod = strings(&[("ipam.spidernet.io/routes", routes)]);
    let formatted = |choice: &PoolSelection| -> Vec<String> {
        let gateway = Some("172.91.0.1".parse().unwrap());
        let routes = choice.routes(&[(A.parse().unwrap(), gateway)]);
        routes.iter().map(|route| format!("{} {}", route.dst, route.gw.unwrap())).collect()
    };
    let choice = fixture.choose("eth0", 0, &["p"]).unwrap().unwrap();
    let [own, asked, default] = ["10.0.0.0/8 172.91.0.2", "10.9.0.0/16 172.91.0.9", "0.0.0.0/0 172.91.0.1"];
    assert_eq!(formatted(&choice), [own, asked, default]);
    let clean = PoolSelection { clean_gateway: true, ..choice };
    assert_eq!(formatted(&clean), [own, asked]);
}

// Case: ipam A20
#[test]
fn disabled_address_family_is_ignored_with_a_warning() {
    let mut six = pool_spec("six", 0);
    (six.subnet, six.ips, six.gateway) = ("fd00::/64".into(), vec!["fd00::1-fd00::9".into()], None);
    let mut fixture = PoolSelectionFixture::new(vec![pool_spec("four", 91), six]);
    fixture.pod = strings(&[("ipam.spidernet.io/ippool", r#"{"ipv4":["four"],"ipv6":["six"]}"#)]);
    let both = fixture.choose("eth0", 0, &[]).unwrap().unwrap();
    let pod = ferroband_model::PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
    let families: Vec<_> =
        both.requests(&pod, false, "eth0", "c").iter().map(|request| request.pools[0].family()).collect();
    assert_eq!(families, [IpFamily::V4, IpFamily::V6]);
    fixture.v6 = false;
    let one = fixture.choose("eth0", 0, &[]).unwrap().unwrap();
    assert!(one.pools.v6.is_empty() && !one.pools.v4.is_empty() && one.warnings.len() == 1);
}

// Case: ipam S15
#[test]
fn reserved_address_is_not_assigned_but_kept_by_its_owner() {
    let mut fixture = PoolSelectionFixture::new(vec![pool_spec("p", 91)]);
    let reserved = "172.91.0.100".parse().unwrap();
    fixture.reserved = vec![(reserved, reserved)];
    let choice = fixture.choose("eth0", 0, &["p"]).unwrap().unwrap();
    let pool = &choice.pools.v4[0].addresses;
    assert!(!pool.contains(reserved) && pool.can_keep(reserved) && pool.capacity() == 20);
}

// Case: ipam S02
#[test]
fn host_bits_of_subnet_are_masked_with_a_warning() {
    let seed = IpPoolSpec {
        name: "gpu1-net11".into(),
        subnet: "172.16.11.0/16".into(),
        ips: vec!["172.16.11.1-172.16.11.200".into()],
        gateway: Some("172.16.11.254".into()),
        ..IpPoolSpec::default()
    };
    let pool = IpPool::from_spec(&seed).unwrap();
    assert_eq!(pool.addresses.subnet().to_string(), "172.16.0.0/16");
    assert_eq!((pool.addresses.capacity(), pool.warnings.len()), (200, 1));
}

// Case: ipam S08, ipam S13
#[test]
fn invalid_pool_is_rejected_with_its_field() {
    let assert_rejected = |change: &dyn Fn(&mut IpPoolSpec), expected: &str| {
        let mut pool = pool_spec("p", 91);
        change(&mut pool);
        let error = IpPool::from_spec(&pool).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let route = |dst: &str, gw: &str| vec![(dst.to_owned(), gw.to_owned())];
    assert_rejected(
        &|pool| pool.routes = route("0.0.0.0/0", "172.91.0.2"),
        "use `gateway` for the default route",
    );
    assert_rejected(
        &|pool| pool.routes = route("10.0.0.0/8", "192.168.0.2"),
        "gw 192.168.0.2 is not in subnet",
    );
    assert_rejected(
        &|pool| pool.routes = route("fd00::/64", "172.91.0.2"),
        "have different address families",
    );
    let twice = [route("10.0.0.0/8", "172.91.0.2"), route("10.0.0.0/8", "172.91.0.3")].concat();
    assert_rejected(&|pool| pool.routes = twice.clone(), "routes[1]: dst 10.0.0.0/8 is listed twice");
    assert_rejected(&|pool| pool.affinity.pods = Some(LabelMatcher::default()), "podAffinity");
    assert_rejected(&|pool| pool.subnet = "172.91.0.0".into(), "subnet");
    assert_rejected(&|pool| pool.ips = vec!["10.0.0.1".into()], "10.0.0.1-10.0.0.1 is not in subnet");
    assert_rejected(&|pool| pool.gateway = Some("10.0.0.1".into()), "gateway");
    assert_rejected(&|pool| pool.ip_version = Some(6), "ipVersion");
    assert_rejected(&|pool| pool.exclude_ips = pool.ips.clone(), "no usable address");
    assert_rejected(&|pool| pool.ips.clear(), "no usable address");
}

// Case: ipam S06, ipam S07
#[test]
fn overlapping_pools_conflict() {
    let read = |name: &str, subnet: &str, ips: &str| {
        let (subnet, ips) = (subnet.into(), vec![ips.into()]);
        IpPool::from_spec(&IpPoolSpec { name: name.into(), subnet, ips, ..IpPoolSpec::default() }).unwrap()
    };
    let first = read("first", "172.91.0.0/16", "172.91.0.100-172.91.0.120");
    let formatted = |second: &IpPool| -> Vec<String> {
        find_conflicts(second, [&first]).map(|conflict| conflict.to_string()).collect()
    };
    assert_eq!(
        formatted(&read("second", "172.91.0.0/16", "172.91.0.110-172.91.0.130")),
        ["172.91.0.110-172.91.0.120 is also in pool first"]
    );
    assert_eq!(formatted(&read("second", "172.91.0.0/16", "172.91.0.121-172.91.0.130")), [""; 0]);
    let narrow = formatted(&read("second", "172.91.1.0/24", "172.91.1.1"));
    assert!(narrow[0].contains("overlaps 172.91.0.0/16 of pool first"), "{narrow:?}");
    assert_eq!(formatted(&first), [""; 0], "a pool does not conflict with itself");
}
