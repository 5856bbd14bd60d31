//! Whereabouts cases, called as the plugin `whereabouts` with a daemon and the API server. Each case uses its own
//! subnet, since all share one address space.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::ip_pools::{address_holder, ipoib_network, wait_address_free};
use ferroband_cluster_tests::ipam_caller::IpamCaller;
use ferroband_cluster_tests::{
    TestObjects, eventually, holds_for, kubectl, kubectl_get, node_names, pod_with_annotations,
    pod_with_networks, soak_rounds, wait_pod_ready,
};
use serde_json::{Value, json};

fn range_ipam(range: &str) -> Value {
    json!({"type": "whereabouts", "range": range})
}

fn with(mut ipam: Value, more: Value) -> Value {
    ipam.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    ipam
}

fn caller(objects: &mut TestObjects, pod: &str) -> IpamCaller {
    IpamCaller::new(objects, pod, &node_names()[0])
}

// Case: ipam W02, ipam W05
#[test]
fn two_interfaces_get_two_addresses_and_del_is_idempotent() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w02");
    let ipam = range_ipam("10.70.2.0/24");
    assert_eq!(caller.add("one", "net1", &ipam).as_deref(), Ok(&["10.70.2.1/24".to_owned()][..]));
    assert_eq!(caller.add("one", "net2", &ipam).as_deref(), Ok(&["10.70.2.2/24".to_owned()][..]));
    for _ in 0..2 {
        caller.del("one", "net1", &ipam);
    }
    wait_address_free("the address of net1", 30, "10.70.2.1");
    assert_eq!(address_holder("10.70.2.2").expect("the entry of net2")["interface"], "net2");
}

// Case: ipam W06, ipam W07, ipam W09, ipam W10, ipam W11, ipam W16
#[test]
fn ranges_start_and_end_as_configured() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w06");
    let fill = |ipam: &Value, first: &str, last: &str, count: usize| {
        let addresses = caller.add_many(ipam, count);
        assert_eq!((addresses[0].as_str(), addresses[count - 1].as_str()), (first, last), "{ipam}");
        let error = caller.add_error(ipam);
        assert!(error.contains("Could not allocate IP in range"), "{ipam}: {error}");
    };
    fill(&range_ipam("10.70.6.225/28"), "10.70.6.225/28", "10.70.6.238/28", 14);
    fill(&range_ipam("10.70.7.5-10.70.7.25/24"), "10.70.7.5/24", "10.70.7.25/24", 21);
    let bounds = json!({"range_start": "10.70.9.5", "range_end": "10.70.9.12"});
    fill(&with(range_ipam("10.70.9.0/24"), bounds), "10.70.9.5/24", "10.70.9.12/24", 8);
    let reversed = json!({"range_start": "10.70.10.240", "range_end": "10.70.10.100"});
    fill(&with(range_ipam("10.70.10.0/24"), reversed), "10.70.10.240/24", "10.70.10.254/24", 15);
    let elsewhere = with(range_ipam("10.70.11.0/24"), json!({"range_start": "10.0.0.1"}));
    assert_eq!(caller.add_one(&elsewhere), "10.70.11.1/24");
    assert_eq!(caller.add_one(&range_ipam("00010.00070.16.0/24")), "10.70.16.1/24");
}

// Case: ipam W08, ipam W12, ipam W13, ipam W15
#[test]
fn excluded_addresses_are_skipped_and_invalid_ranges_rejected() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w08");
    let error = caller.add_error(&range_ipam("10.70.8.5-10.70.9.25/28"));
    assert!(error.contains("invalid range start for CIDR 10.70.9.16/28: 10.70.8.5"), "{error}");
    let two = json!({"exclude": ["10.70.12.0/28", "10.70.12.16/28"]});
    assert_eq!(caller.add_one(&with(range_ipam("10.70.12.0/24"), two)), "10.70.12.32/24");
    let single = with(range_ipam("10.70.13.0/29"), json!({"exclude": ["10.70.13.1"]}));
    assert_eq!(caller.add_one(&single), "10.70.13.2/29");
    let error = caller.add_error(&with(range_ipam("10.70.15.0/24"), json!({"exclude": ["10.70.15.1/123"]})));
    assert!(error.contains("could not parse exclude range"), "{error}");
}

// Case: ipam W17, ipam W18, ipam W20
#[test]
fn each_of_several_ranges_gives_one_address() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w17");
    let several =
        json!({"type": "whereabouts", "ipRanges": [{"range": "10.70.17.1/24"}, {"range": "fd17::1/64"}]});
    let addresses = caller.add("both", "net1", &several).expect("two addresses");
    // A large range starts at an address that depends on the node.
    let of_range = |address: &str, prefix: &str| address.starts_with(prefix) && address.ends_with("/64");
    assert!(addresses[0] == "10.70.17.1/24" && of_range(&addresses[1], "fd17:"), "{addresses:?}");
    let second = addresses[1].trim_end_matches("/64").to_owned();
    let mixed =
        json!({"type": "whereabouts", "range": "fd18::1/64", "ipRanges": [{"range": "10.70.18.1/24"}]});
    let addresses = caller.add("mixed", "net1", &mixed).expect("two addresses");
    assert!(of_range(&addresses[0], "fd18:") && addresses[1] == "10.70.18.1/24", "{addresses:?}");
    // The entry of the first range is removed by hand.
    let patch = r#"{"spec":{"entries":{"1":null}}}"#;
    kubectl(&["patch", "addressblocks.ferroband.io", "default-10.70.17.0", "--type=merge", "-p", patch])
        .stdout_or_panic();
    caller.del("both", "net1", &several);
    wait_address_free("the address of the second range", 30, &second);
    wait_address_free("the address of the first range", 30, "10.70.17.1");
}

// Case: ipam W21, ipam W22, ipam W25
#[test]
fn overlapping_ranges_share_addresses_only_if_configured() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w21");
    assert_eq!(caller.add_one(&range_ipam("10.70.21.0/24")), "10.70.21.1/24");
    assert_eq!(caller.add_one(&range_ipam("10.70.21.0/28")), "10.70.21.2/28");
    let apart = |range: &str| with(range_ipam(range), json!({"enable_overlapping_ranges": false}));
    assert_eq!(caller.add_one(&apart("10.70.22.0/24")), "10.70.22.1/24");
    assert_eq!(caller.add_one(&apart("10.70.22.0/28")), "10.70.22.1/28");
    // One sandbox with two nested ranges.
    let narrow = caller.add("w25", "net1", &range_ipam("10.71.25.0/24")).expect("an address");
    let wide =
        caller.add("w25", "net2", &with(range_ipam("10.71.0.0/16"), json!({"range_start": "10.71.25.1"})));
    assert_ne!(narrow[0].split('/').next(), wide.expect("an address")[0].split('/').next());
}

// Case: ipam W14, ipam W27, ipam W28, ipam W30
#[test]
fn addresses_of_live_pods_are_not_collected() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let caller = caller(&mut objects, "w27");
    let named = with(range_ipam("10.70.27.0/24"), json!({"network_name": "w27"}));
    assert_eq!(caller.add_one(&named), "10.70.27.1/24");
    let odd = with(range_ipam("2001:db8::/30"), json!({"exclude": ["2001:db8::/32"]}));
    let odd = caller.add_one(&odd);
    let odd = odd.strip_suffix("/30").unwrap_or_else(|| panic!("{odd}"));
    let address: std::net::Ipv6Addr = odd.parse().expect("an IPv6 address");
    assert!((0x0db9..=0x0dbb).contains(&address.segments()[1]), "{address} is in the excluded part");
    // A pod whose image cannot be pulled: attached, but not running.
    objects.apply(&ipoib_network("w30", &range_ipam("10.70.30.0/24")));
    let waiting =
        pod_with_networks("w30", &node, "w30").replace("ferroband.lab/tools:1", "ferroband.lab/nowhere:1");
    objects.apply(&waiting);
    for address in ["10.70.27.1", odd, "10.70.30.1"] {
        eventually(&format!("{address} is assigned"), 90, || {
            address_holder(address).map(drop).ok_or_else(String::new)
        });
    }
    assert_eq!(kubectl_get(&["pod", "w30"])["status"]["phase"], "Pending");
    // Longer than a cycle of the daemons and the garbage collector.
    let seconds = if soak_rounds() > 1 { 120 } else { 25 };
    holds_for("all three stay assigned", seconds, || {
        let lost = ["10.70.27.1", odd, "10.70.30.1"].into_iter().find(|one| address_holder(one).is_none());
        lost.map_or(Ok(()), |lost| Err(format!("{lost} is not assigned")))
    });
}

// Case: ipam W29
#[test]
fn address_of_a_default_network_is_not_collected() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply(&ipoib_network("w29", &range_ipam("10.70.29.0/24")));
    let annotations = json!({"v1.multus-cni.io/default-network": "default/w29"});
    objects.apply(&pod_with_annotations("w29", &node, &annotations));
    wait_pod_ready("w29", 90);
    assert_eq!(first_ipv4(&pod_interface("w29", "eth0")).0, "10.70.29.1");
    holds_for("the address stays assigned", if soak_rounds() > 1 { 120 } else { 15 }, || {
        address_holder("10.70.29.1").map(drop).ok_or_else(|| "it is not assigned".to_owned())
    });
}

// Case: ipam W31
#[test]
fn address_of_a_pod_deleted_without_del_is_released() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w31");
    assert_eq!(caller.add_one(&range_ipam("10.70.31.0/24")), "10.70.31.1/24");
    caller.discard_sandbox();
    kubectl(&["delete", "pod", "w31", "--force", "--grace-period=0"]).stdout_or_panic();
    wait_address_free("the address is released", 60, "10.70.31.1");
}

// Case: ipam W36
#[test]
fn failed_write_assigns_no_address() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w36");
    let ipam = range_ipam("10.70.36.0/24");
    {
        let mut denying = TestObjects::default();
        denying.apply(
            &json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": "w36"},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": ["ferroband.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                        "resources": ["addressblocks"],
                    }]},
                    "validations": [{
                        "expression": "!object.metadata.name.startsWith('default-10.70.36.')", "message": "not today",
                    }],
                },
            })
            .to_string(),
        );
        denying.apply(
            &json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": "w36"}, "spec": {"policyName": "w36", "validationActions": ["Deny"]},
            })
            .to_string(),
        );
        let object = json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock", "metadata": {"name": "default-10.70.36.240"},
            "spec": {"space": "default", "first": "10.70.36.240", "entries": {}},
        });
        eventually("the API server rejects the block", 60, || {
            let tried = ferroband_cluster_tests::kubectl_with(
                &["create", "--dry-run=server", "-f", "-"],
                &object.to_string(),
            );
            if tried.err.contains("not today") { Ok(()) } else { Err(format!("{}{}", tried.out, tried.err)) }
        });
        let error = caller.add("one", "net1", &ipam).expect_err("ADD must fail");
        assert!(error.contains("not today"), "{error}");
        assert!(address_holder("10.70.36.1").is_none());
    }
    let addresses = eventually("ADD works again", 60, || caller.add("two", "net1", &ipam));
    assert_eq!(addresses, ["10.70.36.1/24"]);
    assert!(address_holder("10.70.36.1").is_some());
}
