//! Hostile pods and networks, from the call of the CNI plugin to the daemon's reply.

use super::*;
use ferroband_api::annotation::DEFAULT_NETWORK;

fn add_definition(node: &CniServerFixture, name: &str, config: &Value) {
    let mut object = definition(name, "ib0");
    object["spec"]["config"] = json!(config.to_string());
    let object = serde_json::from_value(object).unwrap();
    let key = ("default".to_owned(), name.to_owned());
    node.handler.resolver.networks.cache().apply(Event::Apply((key, Some(object))));
}

#[test]
fn equal_names_are_looked_up_once() {
    let node = CniServerFixture::start();
    node.add_pod("a", Some(&vec!["gone"; 64].join(",")));
    assert_eq!(node.add_fault("a").code, FaultCode::NoNetworkFound);
    let calls = node.api.list_calls();
    let lookups = calls.iter().filter(|call| **call == format!("GET {NADS}/gone"));
    assert_eq!(lookups.count(), 1, "{calls:?}");
}

#[test]
fn a_pod_with_too_many_networks_causes_no_lookup() {
    let node = CniServerFixture::start();
    let names: Vec<_> = (0..1000).map(|number| format!("n{number}")).collect();
    node.add_pod("a", Some(&names.join(",")));
    let fault = node.add_fault("a");
    assert!(fault.cause.contains("maxNetworksPerPod"), "{fault}");
    assert!(!node.api.list_calls().iter().any(|call| call.contains(NADS)), "{:?}", node.api.list_calls());
}

#[test]
fn isolation_applies_to_the_default_network_of_a_pod() {
    let node = CniServerFixture::start();
    let facts = PodFacts {
        uid: "uid-a".into(),
        annotations: [(DEFAULT_NETWORK.to_owned(), "victim/ib".to_owned())].into(),
        ..PodFacts::default()
    };
    let pods = node.handler.resolver.pods.cache();
    pods.apply(Event::Apply((("default".into(), "a".into()), Some(facts))));
    let isolated = CniCall { config: json!({"name": "k8s", "namespaceIsolation": true}), ..call("a") };
    match node.send_request(&DaemonRequest::Add(isolated)) {
        DaemonReply::Fault(fault) => {
            assert_eq!(
                (fault.code, fault.what.as_str()),
                (FaultCode::InvalidAnnotation, "network victim/ib")
            );
            assert!(fault.cause.contains("namespace isolation enabled"), "{fault}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_meta_plugin_is_refused_in_any_place() {
    let node = CniServerFixture::start();
    for (number, config) in [
        json!({"type": "multus"}),
        json!({"plugins": [{"type": "ipoib", "master": "ib0"}, {"TYPE": "ferroband"}]}),
        json!({"type": "ipoib", "master": "ib0", "ipam": {"type": "multus-shim"}}),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("meta{number}");
        add_definition(&node, &name, config);
        node.add_pod(&name, Some(&name));
        let fault = node.add_fault(&name);
        assert!(fault.cause.contains("meta plugin"), "{fault}");
    }
}
