use super::*;

fn dual() -> CniResult {
    let route = |dst: &str, gw: Option<&str>, more: Value| ResultRoute {
        dst: dst.parse().unwrap(),
        gw: gw.map(|gw| gw.parse().unwrap()),
        more: more.as_object().unwrap().clone(),
    };
    CniResult {
        interfaces: vec![ResultInterface {
            name: "net1".into(),
            mac: "80:00".into(),
            mtu: Some(2044),
            sandbox: "/run/netns/t".into(),
            pci_id: "0000:86:00.0".into(),
            ..ResultInterface::default()
        }],
        ips: ["192.168.0.5/24", "fd00::5/64"]
            .map(|text| ResultIp { interface: Some(0), address: text.parse().unwrap(), gateway: None })
            .to_vec(),
        routes: vec![
            route("10.0.0.0/8", Some("192.168.0.1"), json!({"priority": 5})),
            route("::/0", Some("fd00::1"), json!({})),
        ],
        dns: Map::new(),
    }
}

fn plain(result: &CniResult) -> CniResult {
    let mut result = result.clone();
    result.interfaces.iter_mut().for_each(|interface| {
        interface.mtu = None;
        interface.pci_id.clear();
    });
    result.routes.iter_mut().for_each(|route| route.more.clear());
    result
}

#[test]
fn every_version_round_trips() {
    for version in CniVersion::ALL {
        let written = dual().write(version).unwrap();
        assert_eq!(written["cniVersion"], version.as_str());
        let expected = match version {
            CniVersion::V1_1_0 => dual(),
            CniVersion::V0_1_0 | CniVersion::V0_2_0 => {
                let mut expected = plain(&dual());
                expected.interfaces.clear();
                expected.ips.iter_mut().for_each(|ip| ip.interface = None);
                expected
            }
            _ => plain(&dual()),
        };
        assert_eq!(CniResult::read(&written, CniVersion::V0_1_0).unwrap(), expected, "{version}");
    }
}

// Case: cni 9
#[test]
fn a_result_without_addresses_is_valid_since_0_3_0() {
    let mut bare = dual();
    bare.ips.clear();
    bare.routes.clear();
    let newest = bare.write(CniVersion::V1_1_0).unwrap();
    assert!(newest.get("ips").is_none() && newest.get("dns").is_none() && newest.get("routes").is_none());
    let old = bare.write(CniVersion::V0_4_0).unwrap();
    assert_eq!((&old["dns"], old.get("ips")), (&json!({}), None));
    let oldest = bare.write(CniVersion::V0_2_0);
    assert!(matches!(oldest, Err(Error::ResultNeedsAddress { version: CniVersion::V0_2_0 })));
}

// Case: cni 11
#[test]
fn addresses_before_1_0_0_have_their_ip_version() {
    let old = dual().write(CniVersion::V0_3_1).unwrap();
    assert_eq!((&old["ips"][0]["version"], &old["ips"][1]["version"]), (&json!("4"), &json!("6")));
    let keys: Vec<_> = old["interfaces"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["mac", "name", "sandbox"]);
    assert!(dual().write(CniVersion::V1_0_0).unwrap()["ips"][0].get("version").is_none());
}

#[test]
fn the_0_1_0_format_is_split_by_address_family() {
    let oldest = dual().write(CniVersion::V0_1_0).unwrap();
    let expected = json!({
        "cniVersion": "0.1.0",
        "dns": {},
        "ip4": {"ip": "192.168.0.5/24", "routes": [{"dst": "10.0.0.0/8", "gw": "192.168.0.1"}]},
        "ip6": {"ip": "fd00::5/64", "routes": [{"dst": "::/0", "gw": "fd00::1"}]},
    });
    assert_eq!(oldest, expected);
}

#[test]
fn null_and_empty_values_of_go_plugins_are_accepted() {
    let value = json!({
        "interfaces": null,
        "ips": [{"version": "4", "interface": 0, "address": "10.1.2.3/16", "gateway": ""}],
        "routes": [{"dst": "0.0.0.0/0", "gw": null}],
        "dns": {},
        "extra": true,
    });
    let result = CniResult::read(&value, CniVersion::V0_3_1).unwrap();
    assert_eq!(result.ips[0].address, "10.1.2.3/16".parse().unwrap());
    assert_eq!((result.ips[0].gateway, result.routes[0].gw), (None, None));
}

#[test]
fn a_parse_error_names_the_field() {
    let value = json!({"ips": [{"address": "10.1.2.3/99"}]});
    let error = CniResult::read(&value, CniVersion::V1_0_0).unwrap_err();
    assert!(error.to_string().contains("ips[0].address"), "{error}");
    let value = json!({"cniVersion": "9.9.9"});
    assert!(matches!(
        CniResult::read(&value, CniVersion::V1_0_0),
        Err(Error::Config(ConfigError::IncompatibleVersion { .. }))
    ));
}

#[test]
fn empty_dns_settings_are_omitted() {
    let mut result = dual();
    result.dns = json!({"nameservers": [], "domain": "", "search": ["a"]}).as_object().unwrap().clone();
    assert_eq!(result.write(CniVersion::V1_1_0).unwrap()["dns"], json!({"search": ["a"]}));
}

#[test]
fn the_printed_form_equals_libcnis() {
    let result = CniResult { interfaces: vec![ResultInterface::default()], ..CniResult::default() };
    let text = result.print(CniVersion::V1_0_0).unwrap();
    assert_eq!(
        text,
        "{\n    \"cniVersion\": \"1.0.0\",\n    \"interfaces\": [\n        {\n            \"name\": \"\"\n        }\n    ]\n}"
    );
}

#[test]
fn empty_dns_settings_are_not_written() {
    let value = json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.1/24"}],
        "dns": {"nameservers": [], "domain": "", "search": null, "options": ["ndots:5"], "x": 0}});
    let result = CniResult::read(&value, CniVersion::NEWEST).unwrap();
    for version in [CniVersion::V0_2_0, CniVersion::V0_4_0, CniVersion::V1_1_0] {
        let written = result.write(version).unwrap();
        assert_eq!(written["dns"], json!({"options": ["ndots:5"], "x": 0}), "{version}");
    }
}

#[test]
fn dns_settings_of_a_legacy_result_are_kept() {
    let value = json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.1/24"}, "dns": {"domain": "a.b"}});
    let result = CniResult::read(&value, CniVersion::NEWEST).unwrap();
    assert_eq!(Value::Object(result.dns), json!({"domain": "a.b"}));
}

// CNI specification 1.1.0 added `mtu`, `socketPath` and `pciID`.
#[test]
fn interface_has_only_the_fields_of_its_version() {
    let interface = json!({"name": "net1", "mtu": 2044, "socketPath": "/s", "pciID": "0000:86:00.0"});
    let result = CniResult::read(&json!({"interfaces": [interface]}), CniVersion::V1_1_0).unwrap();
    let written = |version| result.write(version).unwrap()["interfaces"][0].clone();
    assert_eq!(written(CniVersion::V1_1_0), interface);
    assert_eq!(written(CniVersion::V1_0_0), json!({"name": "net1"}));
}

#[test]
fn results_are_converted_only_when_the_version_differs() {
    let result = json!({"cniVersion": "0.4.0", "ips": [], "custom": true});
    assert_eq!(to_prev_result(&result, CniVersion::V0_4_0).unwrap(), result);
    let unversioned = json!({"custom": true});
    assert_eq!(
        to_prev_result(&unversioned, CniVersion::V1_0_0).unwrap(),
        json!({"cniVersion": "1.0.0", "custom": true})
    );
    let old = json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.2/24"}});
    let new = to_prev_result(&old, CniVersion::V1_0_0).unwrap();
    assert_eq!(new, json!({"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]}));
}

#[test]
fn result_that_is_no_object_is_an_error() {
    for result in [json!("text"), json!(5), json!(true)] {
        assert!(to_prev_result(&result, CniVersion::V1_1_0).is_err(), "{result}");
    }
}
