//! Networks whose `coordinator` asks for the traffic of others. The node's routes to pods precede its main table.

use crate::coordinator::{POD, assert_clean, reaches, set_up, with_coordinator};
use crate::coordinator_foreign::{install_main_plugin, network};
use crate::fixture::{AttachFixture, PodNetnsFixture, host_ip};
use crate::meta_plugin::{add, assigned_addresses, config, del};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};

const C2: (&str, &str) = ("c2", "eth0");

/// Attach a second pod that asks for `address`. If that fails, nothing of it may be left.
fn attach_second(
    fixture: &AttachFixture,
    daemon: &ScriptedDaemon,
    coordinator: Value,
    address: &str,
) -> Result<Value, Error> {
    {
        let mut state = daemon.state.lock().unwrap();
        state.attachments = vec![with_coordinator("eth0", coordinator)];
        state.assigned = vec![assigned_addresses(0, address)];
    }
    let before = host_ip(&["-4", "route", "show", "table", "all"]);
    let pod = PodNetnsFixture::new();
    let result = fixture.run(PluginType::Ferroband, "ADD", C2, &pod.path, &config());
    if result.is_err() {
        assert_eq!(pod.link_names(), [""; 0]);
        assert_eq!(host_ip(&["-4", "route", "show", "table", "all"]), before);
        fixture.run(PluginType::Ferroband, "DEL", C2, &pod.path, &config()).unwrap();
    }
    result
}

fn owner(result: Result<Value, Error>) -> String {
    let Err(Error::OnNetwork { source, .. }) = result else { panic!("not refused: {result:?}") };
    match *source {
        Error::AddressInUse { owner, .. } => owner,
        other => panic!("{other}"),
    }
}

#[test]
fn the_node_keeps_its_routes_to_itself_to_other_pods_and_to_services() {
    let (fixture, daemon, pod, _other) =
        set_up(vec![with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    add(&fixture, &pod).unwrap();
    host_ip(&["route", "add", "172.91.0.9/32", "dev", "other"]);
    host_ip(&["link", "add", "kube-ipvs0", "type", "bridge"]);
    host_ip(&["address", "add", "10.97.0.1/32", "dev", "kube-ipvs0"]);

    for (address, expected) in [
        ("172.91.0.7/16", "interface vethc1"),
        ("172.91.0.9/16", "interface other"),
        ("10.78.1.1/16", "interface cni0"),
        ("10.97.0.1/16", "interface kube-ipvs0"),
        ("10.96.0.10/16", "Services (10.96.0.0/16)"),
    ] {
        assert_eq!(owner(attach_second(&fixture, &daemon, json!({}), address)), expected, "{address}");
    }
    let hidden = json!({"serviceCIDR": [], "clusterServiceCIDR": ["10.98.0.0/16"]});
    assert_eq!(owner(attach_second(&fixture, &daemon, hidden, "10.98.0.10/16")), "Services (10.98.0.0/16)");
    let pods = || json!({"overlayPodCIDR": [], "clusterPodCIDR": ["10.78.0.0/16"]});
    let result = attach_second(&fixture, &daemon, pods(), "10.78.1.2/16");
    assert_eq!(owner(result), "pods of the cluster network (10.78.0.0/16)");
    assert!(reaches(None, POD), "the first pod still gets its traffic");

    host_ip(&["link", "delete", "dev", "kube-ipvs0"]);
    del(&fixture, &pod.path).unwrap();
    assert_clean(&fixture);
}

#[test]
fn the_node_has_no_route_to_an_address_that_the_network_did_not_assign() {
    // The plugin returns the first address only.
    let addresses = [("10.1.0.7/24", "10.1.0.1"), ("10.3.0.7/24", ""), ("fd01::7/64", "")];
    let (fixture, _daemon, pod, _other) = set_up(vec![network("eth0", "first", Some(json!({})))], &[]);
    install_main_plugin(&fixture, "first", &addresses);
    add(&fixture, &pod).unwrap();
    let routes = host_ip(&["-4", "route", "show", "table", "500"]);
    let to: Vec<_> = routes.as_array().unwrap().iter().map(|route| route["dst"].clone()).collect();
    assert_eq!(to, ["10.1.0.7"]);
    let v6 = host_ip(&["-6", "rule"]);
    assert!(v6.as_array().unwrap().iter().all(|rule| rule["table"] != "500"), "{v6}");
    del(&fixture, &pod.path).unwrap();
    assert_clean(&fixture);
}

#[test]
fn a_table_of_another_rule_is_not_used() {
    let (fixture, daemon, pod, _other) =
        set_up(vec![with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    host_ip(&["rule", "add", "from", "10.1.2.3", "lookup", "501"]);
    let result = attach_second(&fixture, &daemon, json!({"hostRuleTable": 501}), "172.91.0.8/16");
    let error = result.unwrap_err();
    assert!(error.to_string().contains("table 501") && error.to_string().contains("10.1.2.3"), "{error}");
    assert_eq!(error.fault().code.reason(), "InvalidConfig");
    let routes = host_ip(&["-4", "route", "show", "table", "all"]);
    assert!(!routes.to_string().contains("501"), "{routes}");

    // Pods share the default table.
    {
        let mut state = daemon.state.lock().unwrap();
        state.attachments = vec![with_coordinator("eth0", json!({}))];
        state.assigned = vec![assigned_addresses(0, "172.91.0.7/16")];
    }
    add(&fixture, &pod).unwrap();
    attach_second(&fixture, &daemon, json!({}), "172.91.0.8/16").unwrap();
    host_ip(&["rule", "delete", "from", "10.1.2.3", "lookup", "501"]);
}

#[test]
fn pools_of_an_administrator_may_have_the_subnet_of_the_cluster_network() {
    let mut attachment = with_coordinator("eth0", json!({"clusterPodCIDR": ["172.91.0.0/16"]}));
    attachment.steps[0].config["ipam"] = json!({"type": "spiderpool"});
    let (fixture, _daemon, pod, _other) = set_up(vec![attachment], &["172.91.0.7/16"]);
    add(&fixture, &pod).unwrap();
    assert!(reaches(None, POD));
    del(&fixture, &pod.path).unwrap();
    assert_clean(&fixture);
}
