use super::*;
use serde_json::json;

fn entries(default: bool, result: Value) -> Vec<StatusEntry> {
    AttachedNetworkResult { name: "ns/n", interface: "net1", default, result: &result, device_info: None }
        .status_entries()
}

// Case: cni 110
#[test]
fn one_interface_is_rendered() {
    let result = json!({
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "net1", "mac": "00:00:10:49", "mtu": 2044, "sandbox": "/run/netns/x"}],
        "ips": [{"address": "192.168.0.1/24", "interface": 0}, {"address": "fd00::1/64"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "192.168.0.254"}, {"dst": "10.0.0.0/8", "gw": "192.168.0.9"}],
    });
    let expected = r#"[{
    "name": "ns/n",
    "interface": "net1",
    "ips": [
        "192.168.0.1",
        "fd00::1"
    ],
    "mac": "00:00:10:49",
    "mtu": 2044,
    "dns": {},
    "gateway": [
        "192.168.0.254"
    ]
}]"#;
    assert_eq!(render_status(&entries(false, result)), expected);
}

// Case: cni 110
#[test]
fn keys_are_in_the_expected_order() {
    let result = json!({
        "interfaces": [{"name": "eth0", "mac": "aa", "mtu": 1500, "sandbox": "s"}],
        "ips": [{"address": "10.1.0.2/24"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}],
        "dns": {"search": ["b"], "domain": "c", "nameservers": ["d"], "options": ["e"]},
    });
    let device = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:86:00.1"}});
    let attached = AttachedNetworkResult {
        name: "cbr0",
        interface: "eth0",
        default: true,
        result: &result,
        device_info: Some(&device),
    };
    let text = render_status(&attached.status_entries());
    let order = [
        "name",
        "interface",
        "ips",
        "mac",
        "mtu",
        "default",
        "dns",
        "nameservers",
        "domain",
        "search",
        "options",
        "device-info",
        "gateway",
    ];
    let positions: Vec<_> = order.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(positions.is_sorted(), "{text}");
    let parsed: Vec<StatusEntry> = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed, attached.status_entries());
}

#[test]
fn entries_are_joined_like_multus_does() {
    let entry = |name: &str| StatusEntry { name: name.into(), ..StatusEntry::default() };
    let expected =
        "[{\n    \"name\": \"a\",\n    \"dns\": {}\n},{\n    \"name\": \"b\",\n    \"dns\": {}\n}]";
    assert_eq!(render_status(&[entry("a"), entry("b")]), expected);
    assert_eq!(render_status(&[]), "[]");
}

// Case: cni 112
#[test]
fn host_interface_is_not_reported() {
    let only = entries(
        false,
        json!({"interfaces": [{"name": "veth0", "mac": "aa"}], "ips": [{"address": "10.0.0.1/24"}]}),
    );
    assert_eq!(
        only,
        [StatusEntry { name: "ns/n".into(), ips: vec!["10.0.0.1".into()], ..StatusEntry::default() }]
    );
}

// Case: cni 112
#[test]
fn result_without_interfaces_uses_the_requested_one() {
    let only = entries(true, json!({"ips": [{"address": "10.0.0.1/24"}]}));
    assert_eq!((only[0].interface.as_deref(), only[0].default), (Some("net1"), true));
    assert_eq!(entries(true, json!({})), []);
}

// Case: cni 113
#[test]
fn default_route_without_gateway_is_omitted() {
    let only = entries(
        false,
        json!({
            "interfaces": [{"name": "net1", "sandbox": "s"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": ""}, {"dst": "::/0", "gw": "fe80::1"}],
        }),
    );
    assert_eq!(only[0].gateway, ["fe80::1"]);
}

#[test]
fn every_pod_interface_gets_an_entry() {
    let result = json!({
        "interfaces": [
            {"name": "bridge0"}, {"name": "net1", "sandbox": "s"}, {"name": "net1a", "sandbox": "s"},
        ],
        "ips": [
            {"address": "10.0.0.1/24", "interface": 1}, {"address": "10.0.0.2/24", "interface": 2, "gateway": "10.0.0.254"},
            {"address": "10.0.0.3/24"},
        ],
    });
    let summary = |default| -> Vec<_> {
        let all = entries(default, result.clone());
        all.into_iter().map(|entry| (entry.interface.unwrap(), entry.ips.join(" "), entry.default)).collect()
    };
    let expected = |default| {
        [("net1".into(), "10.0.0.1".into(), false), ("net1a".into(), "10.0.0.2 10.0.0.3".into(), default)]
    };
    assert_eq!(summary(true), expected(true));
    assert_eq!(summary(false), expected(false));
    let outside = json!({"interfaces": [{"name": "a"}, {"name": "b"}], "ips": [{"address": "10.0.0.1/24"}]});
    assert_eq!(entries(true, outside), []);
}

#[test]
fn mtu_0_is_not_reported() {
    let mtu = |mtu: u64| {
        let interface = json!({"name": "net1", "mtu": mtu, "sandbox": "s"});
        entries(false, json!({"interfaces": [interface]}))[0].mtu
    };
    assert_eq!((mtu(0), mtu(1)), (None, Some(1)));
}
