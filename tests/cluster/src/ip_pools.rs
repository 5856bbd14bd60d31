//! IPoIB networks, Spiderpool pools, and assigned addresses.

use crate::inspect::{assigned_addresses, first_ipv4, pod_interface};
use crate::{eventually, kubectl, network_definition};
use serde_json::{Value, json};

/// CNI configuration of an IPoIB network with this `ipam`.
pub fn ipoib_config(name: &str, ipam: &Value) -> Value {
    json!({"cniVersion": "0.3.1", "name": name, "type": "ipoib", "master": "ib0", "ipam": ipam})
}

/// A NetworkAttachmentDefinition of an IPoIB network.
pub fn ipoib_network(name: &str, ipam: &Value) -> String {
    network_definition(name, &ipoib_config(name, ipam)).to_string()
}

/// The SpiderIPPool of document 001, with a separate subnet for each test.
pub fn spider_ip_pool(name: &str, second: u8, more: &Value) -> String {
    let mut spec = json!({
        "subnet": format!("172.{second}.0.0/16"), "gateway": format!("172.{second}.0.1"),
        "ips": [format!("172.{second}.0.100-172.{second}.0.120")],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name}, "spec": spec,
    })
    .to_string()
}

/// The `ipam` of a network that uses these pools.
pub fn spiderpool_ipam(pools: &[&str]) -> Value {
    json!({"type": "spiderpool", "default_ipv4_ippool": pools})
}

/// The IPv4 address of net1, read inside the pod.
#[track_caller]
pub fn pod_address(pod: &str) -> String {
    first_ipv4(&pod_interface(pod, "net1")).0
}

/// The entry of an assigned address in its AddressBlock.
pub fn address_holder(address: &str) -> Option<Value> {
    assigned_addresses().into_iter().find(|(known, _)| known.to_string() == address).map(|(_, entry)| entry)
}

/// Waits until the address is not assigned.
#[track_caller]
pub fn wait_address_free(what: &str, seconds: u64, address: &str) {
    eventually(what, seconds, || match address_holder(address) {
        None => Ok(()),
        Some(entry) => Err(entry.to_string()),
    });
}

/// Waits for a warning event of the pod that contains `part`.
#[track_caller]
pub fn wait_pod_warning(pod: &str, part: &str) {
    eventually(&format!("a warning of {pod} about {part:?}"), 60, || {
        let field = format!("involvedObject.name={pod},type=Warning");
        let events = kubectl(&["get", "events", "--field-selector", &field, "-o", "json"]).out;
        if events.contains(part) { Ok(()) } else { Err(events) }
    });
}
