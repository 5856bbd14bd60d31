use super::*;
use serde_json::{Value, json};

fn policy(isolated: bool, global: &[&str], networks: &[&str]) -> NetworkAccessPolicy {
    let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
    NetworkAccessPolicy::new(String::new(), isolated, owned(global), owned(networks), Vec::new())
}

fn network(text: &str) -> NetworkSelection {
    NetworkSelection::parse_networks(text, "A").unwrap().remove(0)
}

// Case: cni 80
#[test]
fn isolation_allows_the_pods_own_and_global_namespaces() {
    assert_eq!(policy(false, &["b"], &[]), NetworkAccessPolicy::default());
    assert!(
        NetworkAccessPolicy::default().check_allowed("A", &network("b/x")).is_ok(),
        "disabled by default"
    );
    let on = policy(true, &[], &[]);
    assert!(
        on.check_allowed("A", &network("x")).is_ok() && on.check_allowed("A", &network("default/x")).is_ok()
    );
    let fault = on.check_allowed("A", &network("b/x")).unwrap_err();
    assert_eq!(fault.code, FaultCode::InvalidAnnotation);
    assert!(fault.cause.contains("namespace isolation enabled") && fault.what.contains("b/x"), "{fault}");
    let global = policy(true, &[" b ", "c"], &[]);
    assert!(
        global.check_allowed("A", &network("b/x")).is_ok()
            && global.check_allowed("A", &network("default/x")).is_err()
    );
}

// Case: cni 80
#[test]
fn multus_configuration_is_applied_and_cannot_disable_isolation() {
    let config = json!({"namespaceIsolation": true, "globalNamespaces": "b, c", "multusNamespace": "m",
        "defaultNetworks": ["d"], "systemNamespaces": ["s"]});
    let read = |config: &Value| WrapperConfig::parse(config).unwrap();
    let policy = NetworkAccessPolicy::default().with_config(&read(&config));
    let expected = NetworkAccessPolicy {
        namespace: "m".into(),
        isolation: Some(vec!["b".into(), "c".into()]),
        default_networks: vec!["d".into()],
        system_namespaces: vec!["s".into()],
        ..NetworkAccessPolicy::default()
    };
    assert_eq!(policy, expected);
    for config in [json!({}), json!({"namespaceIsolation": false, "globalNamespaces": "x"}), Value::Null] {
        assert_eq!(policy.with_config(&read(&config)), policy, "{config}");
    }
    let wider = json!({"namespaceIsolation": true, "globalNamespaces": "everything"});
    assert_eq!(policy.with_config(&read(&wider)).isolation, policy.isolation);
    let fault = WrapperConfig::parse(&json!({"namespaceIsolation": 7})).unwrap_err().fault();
    assert_eq!(fault.code, FaultCode::InvalidConfig);
}

// Case: cni 85
#[test]
fn default_networks_are_not_added_to_system_pods() {
    let policy = policy(false, &[], &["d1", "other/d2"]);
    let names = |namespace: &str| -> Vec<_> {
        policy.cluster_wide_networks(namespace).unwrap().iter().map(NetworkSelection::display_name).collect()
    };
    assert_eq!(names("default"), ["kube-system/d1", "other/d2"]);
    assert_eq!(names("kube-system"), [""; 0]);
    assert_eq!(policy.plain_pods().namespaces, ["kube-system"]);
    assert_eq!(NetworkAccessPolicy::default().plain_pods().namespaces, ["*"]);
}

fn default_network(text: &str) -> NetworkSelection {
    NetworkSelection::parse_default_network(text, "kube-system").unwrap().unwrap()
}

#[test]
fn isolation_applies_to_the_default_network() {
    let on = policy(true, &["shared"], &[]);
    for allowed in ["own/x", "shared/x", "kube-system/x", "spiderpool/x", "ferroband-system/x", "x"] {
        assert_eq!(on.check_default_network("own", &default_network(allowed)), Ok(()), "{allowed}");
    }
    let fault = on.check_default_network("own", &default_network("victim/x")).unwrap_err();
    assert_eq!((fault.code, fault.what.as_str()), (FaultCode::InvalidAnnotation, "network victim/x"));
    assert!(
        fault.cause.contains("namespace isolation enabled") && fault.remedy.contains(DEFAULT_NETWORK),
        "{fault}"
    );
    let off = NetworkAccessPolicy::default();
    assert_eq!(off.check_default_network("own", &default_network("victim/x")), Ok(()));
    let hardened = NetworkAccessPolicy { tenants: TenantPolicy::new("f", ["kube-system"]), ..on };
    assert!(hardened.check_default_network("own", &default_network("spiderpool/x")).is_err());
}

#[test]
fn the_default_network_annotation_can_be_forbidden() {
    let forbidden = NetworkAccessPolicy { forbids_default_network: true, ..NetworkAccessPolicy::default() };
    let fault = forbidden.check_default_network("own", &default_network("own/x")).unwrap_err();
    assert!(fault.what.contains(DEFAULT_NETWORK) && fault.cause.contains("forbidDefaultNetwork"), "{fault}");
}
