//! The contract's cases of Whereabouts, by its plugin's own name, against a daemon and the API server. Each has a subnet of
//! its own in place of the one in the contract, since all share one space of addresses.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::ip_pools::{address_holder, ipoib_network, wait_address_free};
use ferroband_cluster_tests::ipam_caller::IpamCaller;
use ferroband_cluster_tests::{
    TestObjects, eventually, holds_for, kubectl, kubectl_get, node_names, pod_with_annotations,
    pod_with_networks, soak_rounds, wait_pod_ready,
};
use serde_json::{Value, json};

fn range(range: &str) -> Value {
    json!({"type": "whereabouts", "range": range})
}

fn with(mut ipam: Value, more: Value) -> Value {
    ipam.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    ipam
}

fn caller(objects: &mut TestObjects, pod: &str) -> IpamCaller {
    IpamCaller::new(objects, pod, &node_names()[0])
}

#[test]
fn w02_w05_two_interfaces_and_del_again() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w02");
    let ipam = range("10.70.2.0/24");
    assert_eq!(caller.add("one", "net1", &ipam).as_deref(), Ok(&["10.70.2.1/24".to_owned()][..]));
    assert_eq!(caller.add("one", "net2", &ipam).as_deref(), Ok(&["10.70.2.2/24".to_owned()][..]));
    for _ in 0..2 {
        caller.del("one", "net1", &ipam);
    }
    wait_address_free("its address", 30, "10.70.2.1");
    assert_eq!(address_holder("10.70.2.2").expect("the other's")["interface"], "net2");
}

#[test]
fn w06_w07_w09_w10_w11_w16_ranges_and_their_ends() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w06");
    let fill = |ipam: &Value, first: &str, last: &str, count: usize| {
        let given = caller.add_many(ipam, count);
        assert_eq!((given[0].as_str(), given[count - 1].as_str()), (first, last), "{ipam}");
        let told = caller.add_error(ipam);
        assert!(told.contains("Could not allocate IP in range"), "{ipam}: {told}");
    };
    fill(&range("10.70.6.225/28"), "10.70.6.225/28", "10.70.6.238/28", 14);
    fill(&range("10.70.7.5-10.70.7.25/24"), "10.70.7.5/24", "10.70.7.25/24", 21);
    let bounds = json!({"range_start": "10.70.9.5", "range_end": "10.70.9.12"});
    fill(&with(range("10.70.9.0/24"), bounds), "10.70.9.5/24", "10.70.9.12/24", 8);
    let reversed = json!({"range_start": "10.70.10.240", "range_end": "10.70.10.100"});
    fill(&with(range("10.70.10.0/24"), reversed), "10.70.10.240/24", "10.70.10.254/24", 15);
    let elsewhere = with(range("10.70.11.0/24"), json!({"range_start": "10.0.0.1"}));
    assert_eq!(caller.add_one(&elsewhere), "10.70.11.1/24");
    assert_eq!(caller.add_one(&range("00010.00070.16.0/24")), "10.70.16.1/24");
}

#[test]
fn w08_w12_w13_w15_what_is_left_out_and_what_is_refused() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w08");
    let told = caller.add_error(&range("10.70.8.5-10.70.9.25/28"));
    assert!(told.contains("invalid range start for CIDR 10.70.9.16/28: 10.70.8.5"), "{told}");
    let two = json!({"exclude": ["10.70.12.0/28", "10.70.12.16/28"]});
    assert_eq!(caller.add_one(&with(range("10.70.12.0/24"), two)), "10.70.12.32/24");
    let single = with(range("10.70.13.0/29"), json!({"exclude": ["10.70.13.1"]}));
    assert_eq!(caller.add_one(&single), "10.70.13.2/29");
    let told = caller.add_error(&with(range("10.70.15.0/24"), json!({"exclude": ["10.70.15.1/123"]})));
    assert!(told.contains("could not parse exclude range"), "{told}");
}

#[test]
fn w17_w18_w20_several_ranges() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w17");
    let several =
        json!({"type": "whereabouts", "ipRanges": [{"range": "10.70.17.1/24"}, {"range": "fd17::1/64"}]});
    let given = caller.add("both", "net1", &several).expect("two addresses");
    assert_eq!(given, ["10.70.17.1/24", "fd17::1/64"]);
    let mixed =
        json!({"type": "whereabouts", "range": "fd18::1/64", "ipRanges": [{"range": "10.70.18.1/24"}]});
    let given = caller.add("mixed", "net1", &mixed).expect("two addresses");
    assert_eq!(given, ["fd18::1/64", "10.70.18.1/24"]);
    // Somebody takes the first one's entry away by hand.
    let patch = r#"{"spec":{"entries":{"1":null},"used":0,"free":16}}"#;
    kubectl(&["patch", "addressblocks.ferroband.io", "default-10.70.17.0", "--type=merge", "-p", patch])
        .stdout_or_panic();
    caller.del("both", "net1", &several);
    wait_address_free("that of the second range", 30, "fd17::1");
    wait_address_free("and the first", 30, "10.70.17.1");
}

#[test]
fn w21_w22_w25_ranges_that_overlap() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w21");
    assert_eq!(caller.add_one(&range("10.70.21.0/24")), "10.70.21.1/24");
    assert_eq!(caller.add_one(&range("10.70.21.0/28")), "10.70.21.2/28");
    let apart = |range_: &str| with(range(range_), json!({"enable_overlapping_ranges": false}));
    assert_eq!(caller.add_one(&apart("10.70.22.0/24")), "10.70.22.1/24");
    assert_eq!(caller.add_one(&apart("10.70.22.0/28")), "10.70.22.1/28");
    // One sandbox, one range within the other.
    let narrow = caller.add("w25", "net1", &range("10.71.25.0/24")).expect("an address");
    let wide = caller.add("w25", "net2", &with(range("10.71.0.0/16"), json!({"range_start": "10.71.25.1"})));
    assert_ne!(narrow[0].split('/').next(), wide.expect("an address")[0].split('/').next());
}

#[test]
fn w14_w27_w28_w30_what_lives_keeps_its_address() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let caller = caller(&mut objects, "w27");
    let named = with(range("10.70.27.0/24"), json!({"network_name": "w27"}));
    assert_eq!(caller.add_one(&named), "10.70.27.1/24");
    let odd = with(range("2001:db8::/30"), json!({"exclude": ["2001:db8::/32"]}));
    assert_eq!(caller.add_one(&odd), "2001:db9::/30");
    // A pod whose image never comes: not running, but attached.
    objects.apply(&ipoib_network("w30", &range("10.70.30.0/24")));
    let waiting =
        pod_with_networks("w30", &node, "w30").replace("ferroband.lab/tools:1", "ferroband.lab/nowhere:1");
    objects.apply(&waiting);
    for address in ["10.70.27.1", "2001:db9::", "10.70.30.1"] {
        eventually(&format!("{address} is somebody's"), 90, || {
            address_holder(address).map(drop).ok_or_else(String::new)
        });
    }
    assert_eq!(kubectl_get(&["pod", "w30"])["status"]["phase"], "Pending");
    // Longer than the daemons and the collector take to look at everything.
    let seconds = if soak_rounds() > 1 { 120 } else { 25 };
    holds_for("all three are kept", seconds, || {
        let lost =
            ["10.70.27.1", "2001:db9::", "10.70.30.1"].into_iter().find(|one| address_holder(one).is_none());
        lost.map_or(Ok(()), |lost| Err(format!("{lost} is nobody's")))
    });
}

#[test]
fn w29_the_address_of_a_default_network_is_kept() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply(&ipoib_network("w29", &range("10.70.29.0/24")));
    let annotations = json!({"v1.multus-cni.io/default-network": "default/w29"});
    objects.apply(&pod_with_annotations("w29", &node, &annotations));
    wait_pod_ready("w29", 90);
    assert_eq!(first_ipv4(&pod_interface("w29", "eth0")).0, "10.70.29.1");
    holds_for("it is kept", if soak_rounds() > 1 { 120 } else { 15 }, || {
        address_holder("10.70.29.1").map(drop).ok_or_else(|| "it is nobody's".to_owned())
    });
}

#[test]
fn w31_a_pod_that_is_gone_without_a_del_gives_its_address_back() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w31");
    assert_eq!(caller.add_one(&range("10.70.31.0/24")), "10.70.31.1/24");
    caller.discard_sandbox();
    kubectl(&["delete", "pod", "w31", "--force", "--grace-period=0"]).stdout_or_panic();
    wait_address_free("what nobody will ever delete", 60, "10.70.31.1");
}

#[test]
fn w36_a_write_that_fails_hands_out_nothing() {
    let mut objects = TestObjects::default();
    let caller = caller(&mut objects, "w36");
    let ipam = range("10.70.36.0/24");
    {
        let mut refusing = TestObjects::default();
        refusing.apply(
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
        refusing.apply(
            &json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": "w36"}, "spec": {"policyName": "w36", "validationActions": ["Deny"]},
            })
            .to_string(),
        );
        let object = json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock", "metadata": {"name": "default-10.70.36.240"},
            "spec": {"space": "default", "first": "10.70.36.240", "entries": {}, "used": 0, "free": 16},
        });
        eventually("the API server refuses", 60, || {
            let tried = ferroband_cluster_tests::kubectl_with(
                &["create", "--dry-run=server", "-f", "-"],
                &object.to_string(),
            );
            if tried.err.contains("not today") { Ok(()) } else { Err(format!("{}{}", tried.out, tried.err)) }
        });
        let told = caller.add("one", "net1", &ipam).expect_err("it is refused");
        assert!(told.contains("not today"), "{told}");
        assert!(address_holder("10.70.36.1").is_none());
    }
    let given = eventually("it works again", 60, || caller.add("two", "net1", &ipam));
    assert_eq!(given, ["10.70.36.1/24"]);
    assert!(address_holder("10.70.36.1").is_some());
}
