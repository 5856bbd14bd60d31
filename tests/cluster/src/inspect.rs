//! Reads cluster and node state: network-status, address blocks, a node's journal and links, the audit log.

use crate::{LabOutput, exec_on, kubectl, kubectl_get};
use serde_json::Value;
use std::net::IpAddr;

/// The pod's network-status entries.
#[track_caller]
pub fn network_status(pod: &Value) -> Vec<Value> {
    let text = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].as_str();
    let text = text.unwrap_or_else(|| panic!("no network-status on {}", pod["metadata"]["name"]));
    serde_json::from_str(text).expect("network-status is JSON")
}

/// `ip -j address` of one interface inside the pod.
#[track_caller]
pub fn pod_interface(pod: &str, name: &str) -> Value {
    let output: LabOutput = kubectl(&["exec", pod, "--", "ip", "-j", "address", "show", "dev", name]);
    let list: Value = serde_json::from_str(&output.stdout_or_panic()).expect("ip prints JSON");
    list[0].clone()
}

/// An interface's first IPv4 address and prefix length.
#[track_caller]
pub fn first_ipv4(interface: &Value) -> (String, u64) {
    let all = interface["addr_info"].as_array().cloned().unwrap_or_default();
    let first =
        all.iter().find(|a| a["family"] == "inet").unwrap_or_else(|| panic!("no address on {interface}"));
    (first["local"].as_str().unwrap_or_default().to_string(), first["prefixlen"].as_u64().unwrap_or_default())
}

/// Entries of all address blocks, each with the first address of its block.
pub fn block_entries() -> Vec<(String, Value)> {
    let list = kubectl_get(&["addressblocks.ferroband.io"]);
    let mut found = Vec::new();
    for block in list["items"].as_array().into_iter().flatten() {
        for entry in block["spec"]["entries"].as_object().into_iter().flatten().map(|(_, entry)| entry) {
            found.push((block["spec"]["first"].as_str().unwrap_or_default().to_string(), entry.clone()));
        }
    }
    found
}

/// Every assigned address, with its entry.
pub fn assigned_addresses() -> Vec<(IpAddr, Value)> {
    let list = kubectl_get(&["addressblocks.ferroband.io"]);
    let mut found = Vec::new();
    for block in list["items"].as_array().into_iter().flatten() {
        let first: IpAddr = block["spec"]["first"].as_str().unwrap_or_default().parse().expect("an address");
        for (offset, entry) in block["spec"]["entries"].as_object().into_iter().flatten() {
            let offset: u8 = offset.parse().expect("an offset");
            let address = match first {
                IpAddr::V4(v4) => IpAddr::from((u32::from(v4) + u32::from(offset)).to_be_bytes()),
                IpAddr::V6(v6) => IpAddr::from((u128::from(v6) + u128::from(offset)).to_be_bytes()),
            };
            found.push((address, entry.clone()));
        }
    }
    found
}

/// Attachment state on a node: pending releases, journals, veth ends of the simulated fabric. The journal of the
/// daemon's own pod is left out.
pub fn leftover_state(node: &str) -> String {
    exec_on(
        node,
        "cd /var/lib/ferroband; ls owed 2>/dev/null; \
         grep -L '\"namespace\":\"ferroband-system\"' journal/*.json 2>/dev/null; \
         ip -o link | grep -o 'fbv[0-9a-f]*@' ; true",
    )
    .stdout_or_panic()
}

/// Audit events after the first `since` lines of the audit log.
pub fn audit_events(since: usize) -> Vec<Value> {
    let log = exec_on("control", &format!("tail -n +{} /var/log/lab/audit.log", since + 1)).stdout_or_panic();
    log.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// The number of lines in the audit log.
pub fn audit_log_length() -> usize {
    exec_on("control", "wc -l < /var/log/lab/audit.log")
        .stdout_or_panic()
        .trim()
        .parse()
        .expect("wc prints a number")
}
