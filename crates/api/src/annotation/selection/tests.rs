use super::*;

fn networks(text: &str) -> Result<Vec<NetworkSelection>, Error> {
    NetworkSelection::parse_networks(text, "podns")
}

#[track_caller]
fn names(text: &str) -> Vec<(String, String, Option<String>)> {
    networks(text).unwrap().into_iter().map(|s| (s.namespace, s.name, s.interface)).collect()
}

#[track_caller]
fn problem(text: &str) -> String {
    networks(text).unwrap_err().to_string()
}

fn expected(list: &[(&str, &str, Option<&str>)]) -> Vec<(String, String, Option<String>)> {
    list.iter().map(|(ns, name, i)| ((*ns).into(), (*name).into(), i.map(str::to_owned))).collect()
}

// Case: cni 79
#[test]
fn empty_annotation_selects_nothing() {
    assert_eq!(names(""), []);
    assert_eq!(names("  \n"), []);
    assert_eq!(names("[]"), []);
}

// Case: cni 76, cni 86
#[test]
fn comma_list_is_parsed() {
    let list = [("podns", "a", None), ("ns2", "b", Some("ib1")), ("podns", "c", None)];
    assert_eq!(names("a, ns2/b@ib1 ,c"), expected(&list));
    assert_eq!(names("jarvice-ipoib"), expected(&[("podns", "jarvice-ipoib", None)]));
    assert_eq!(names("a,a").len(), 2);
}

// Case: cni 76
#[test]
fn invalid_comma_lists_are_rejected() {
    for wrong in ["a/b/c", "a@b@c", "A", "a_b", "-a", "a.b", "a-", "", "a,,b", "a,", "A/b", "a b"] {
        if !wrong.is_empty() {
            assert!(networks(wrong).is_err(), "{wrong}");
        }
    }
    for interface in ["sixteen-letters-", "a b", "a:b", ".", "..", ""] {
        assert!(networks(&format!("a@{interface}")).is_err(), "{interface}");
    }
    assert!(networks("a@sub/interface").is_err());
    assert_eq!(
        problem("a, b_c"),
        "annotation k8s.v1.cni.cncf.io/networks, network 2 (b_c): name \"b_c\" is not a DNS-1123 subdomain"
    );
}

#[test]
fn repeated_separators_are_named() {
    assert!(problem("a/b/c").contains("more than one /"), "{}", problem("a/b/c"));
    assert!(problem("a@b@c").contains("more than one @"), "{}", problem("a@b@c"));
}

// RFC 1123 and RFC 1035: a label has at most 63 characters, a name at most 253.
#[test]
fn longest_names_are_accepted() {
    let name = |last: usize| {
        let labels = [63, 63, 63, last].map(|length| "a".repeat(length));
        format!(r#"[{{"name":"{}"}}]"#, labels.join("."))
    };
    assert_eq!(networks(&name(61)).unwrap()[0].name.len(), 253);
    assert!(problem(&name(62)).contains("DNS-1123 subdomain"));
    assert!(networks(&"a".repeat(63)).is_ok() && networks(&"a".repeat(64)).is_err());
}

#[test]
fn multi_line_json_is_parsed() {
    let text = r#"[{"name":"gpu1-sriov","namespace":"spiderpool"},
        {"name":"gpu2-sriov","namespace":"spiderpool"}]"#;
    assert_eq!(
        names(text),
        expected(&[("spiderpool", "gpu1-sriov", None), ("spiderpool", "gpu2-sriov", None)])
    );
    assert_eq!(names(r#"[{"name":"with.dots"}]"#), expected(&[("podns", "with.dots", None)]));
}

#[test]
fn every_json_key_is_parsed() {
    let text = r#"[{"name":"n","namespace":"ns","interface":"ib0","ips":["10.0.0.5/24","fd00::5"],
        "mac":"02:00:00:00:00:01","infiniband-guid":"c2:11:22:33:44:55:66:77",
        "portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}],
        "bandwidth":{"ingressRate":1,"ingressBurst":2,"egressRate":3,"egressBurst":4},
        "deviceID":"0000:86:00.1","cni-args":{"guid":"x"},"default-route":["10.0.0.1"],"of-tomorrow":1}]"#;
    let [selection] = &networks(text).unwrap()[..] else { panic!() };
    assert_eq!(selection.display_name(), "ns/n");
    assert_eq!(selection.interface.as_deref(), Some("ib0"));
    assert_eq!(selection.ips, ["10.0.0.5/24", "fd00::5"]);
    assert_eq!(selection.mac.as_deref(), Some("02:00:00:00:00:01"));
    assert_eq!(selection.infiniband_guid.as_deref(), Some("c2:11:22:33:44:55:66:77"));
    assert_eq!(selection.port_mappings[0].container_port, 8080);
    assert_eq!(selection.bandwidth.as_ref().map(|b| b.egress_burst), Some(4));
    assert_eq!(selection.device_id.as_deref(), Some("0000:86:00.1"));
    assert_eq!(selection.cni_args["guid"], "x");
    assert_eq!(selection.default_route, Some(vec!["10.0.0.1".parse().unwrap()]));
}

#[test]
fn interface_takes_precedence_over_interface_request() {
    let interface = |text: &str| networks(text).unwrap()[0].interface.clone();
    assert_eq!(interface(r#"[{"name":"n","interfaceRequest":"old0"}]"#).as_deref(), Some("old0"));
    assert_eq!(
        interface(r#"[{"name":"n","interfaceRequest":"old0","interface":"new0"}]"#).as_deref(),
        Some("new0")
    );
    assert_eq!(interface(r#"[{"name":"n","interface":null}]"#), None);
}

// Case: cni 117
#[test]
fn invalid_json_is_rejected() {
    for wrong in
        [r#"{"name":"a"}"#, r#""a""#, "[a]", r#"[{"name":7}]"#, r#"[{"name":"a","default-route":["x"]}]"#]
    {
        assert!(matches!(networks(wrong), Err(Error::AnnotationJson { .. })), "{wrong}");
    }
    for (wrong, field) in [
        (r#"[{}]"#, "name"),
        (r#"[{"name":"A"}]"#, "name"),
        (r#"[{"name":"a","namespace":"b.c"}]"#, "namespace"),
        (r#"[{"name":"a","interface":"much-too-long-name"}]"#, "interface"),
        (r#"[{"name":"a","ips":["10.0.0.0/33"]}]"#, "ips"),
        (r#"[{"name":"a","mac":"02:00"}]"#, "mac"),
        (r#"[{"name":"a","infiniband-guid":"02:00:00:00:00:01"}]"#, "infiniband-guid"),
        (r#"[{"name":"a","portMappings":[{"hostPort":0,"containerPort":1}]}]"#, "portMappings"),
        (
            r#"[{"name":"a","portMappings":[{"hostPort":1,"containerPort":1,"protocol":"icmp"}]}]"#,
            "portMappings",
        ),
        (r#"[{"name":"a","ips":["10.0.0.1"],"ipam-claim-reference":"c"}]"#, "ipam-claim-reference"),
    ] {
        match networks(wrong) {
            Err(Error::Selection { field: found, .. }) => assert_eq!(found, field, "{wrong}"),
            other => panic!("{wrong}: {other:?}"),
        }
    }
}

// Case: cni 104
#[test]
fn one_default_route_per_family_is_allowed() {
    let text = |routes: [&str; 2]| {
        format!(
            r#"[{{"name":"a","default-route":{}}},{{"name":"b","default-route":{}}}]"#,
            routes[0], routes[1]
        )
    };
    for wrong in [text([r#"["10.0.0.1"]"#, r#"["10.0.1.1"]"#]), text([r#"["fd00::1","fd00::2"]"#, "[]"])] {
        assert!(matches!(networks(&wrong), Err(Error::MultipleDefaultRoutes { .. })), "{wrong}");
    }
    let right = networks(&text([r#"["10.0.0.1","fd00::1"]"#, "[]"])).unwrap();
    assert_eq!(right[1].default_route, Some(vec![]));
    assert_eq!(networks("a").unwrap()[0].default_route, None);
}

// Case: cni 83
#[test]
fn default_network_is_a_single_network() {
    let default = |text: &str| NetworkSelection::parse_default_network(text, "kube-system");
    assert_eq!(default("kube-system/ib-sriov").unwrap().unwrap().display_name(), "kube-system/ib-sriov");
    assert_eq!(default("x").unwrap().unwrap().display_name(), "kube-system/x");
    assert_eq!(default("").unwrap(), None);
    assert!(matches!(default("a,b"), Err(Error::MultipleDefaultNetworks { count: 2, .. })));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_rejected_or_usable(text in "[a-z0-9@/, \\[\\]{}\":._-]{0,40}|\\PC{0,30}") {
        for selection in networks(&text).unwrap_or_default() {
            assert!(!selection.name.is_empty() && !selection.namespace.is_empty());
            assert!(selection.interface.is_none_or(|name| (1..=15).contains(&name.len()) && !name.contains('/')));
        }
    }

    #[test]
    fn any_element_is_rejected_or_usable(name in "[a-zA-Z0-9./-]{0,12}", interface in "\\PC{0,17}", ip in "[0-9a-f:./]{0,20}") {
        let text = serde_json::json!([{"name": name, "interface": interface, "ips": [ip]}]).to_string();
        for selection in networks(&text).unwrap_or_default() {
            assert!(selection.ips.iter().all(|ip| ip.parse::<ipnet::IpNet>().is_ok() || ip.parse::<IpAddr>().is_ok()));
        }
    }
}
