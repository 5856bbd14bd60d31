//! Interfaces that pods have or wait for, for the pod table of `ferroband status`.

use super::ClusterObjects;
use super::daemons::is_ready;
use super::report::InterfaceRow;
use super::waiting::wait_reason;
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORK_STATUS, NETWORKS, NetworkSelection, StatusEntry};
use ferroband_api::cncf::NetworkConfig;
use ferroband_model::{Guid, PKey, config_object::get_key};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;

/// One row for each interface that a pod has or waits for, except interfaces of the cluster's default
/// network. A pod that requests no network has a row only while Ferroband keeps it from starting.
pub fn pod_rows(objects: &ClusterObjects) -> Vec<InterfaceRow> {
    let mut rows: Vec<_> = objects.pods.iter().flat_map(|pod| rows(objects, pod)).collect();
    rows.sort_by(|a, b| (&a.namespace, &a.pod, &a.interface).cmp(&(&b.namespace, &b.pod, &b.interface)));
    rows
}

fn rows(objects: &ClusterObjects, pod: &Pod) -> Vec<InterfaceRow> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Unknown");
    if matches!(phase, "Succeeded" | "Failed") {
        return Vec::new();
    }
    let annotation = |key: &str| pod.annotations().get(key).map(String::as_str);
    let chosen_default = annotation(DEFAULT_NETWORK).is_some();
    let attached: Vec<StatusEntry> =
        annotation(NETWORK_STATUS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let row = InterfaceRow {
        namespace: pod.namespace().unwrap_or_default(),
        pod: pod.name_any(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        ..InterfaceRow::default()
    };
    let state = match phase {
        _ if pod.metadata.deletion_timestamp.is_some() => "Terminating",
        _ if is_ready(pod) => "Ready",
        phase => phase,
    };
    let mut rows = Vec::new();
    for entry in attached.iter().filter(|entry| chosen_default || !entry.default) {
        let row = InterfaceRow { state: state.to_owned(), ..row.clone() };
        rows.push(interface(objects, pod, entry, row));
    }
    if attached.is_empty() {
        let reason = wait_reason(objects, pod);
        let mut networks = requested_networks(pod, &row.namespace);
        if networks.is_empty() && reason.as_ref().is_some_and(|reason| reason.is_own) {
            // The pod requests no network, but Ferroband keeps it from starting.
            networks.push(String::new());
        }
        for network in networks {
            rows.push(InterfaceRow {
                network,
                state: reason.as_ref().map_or(state, |reason| &reason.state).to_owned(),
                message: reason.as_ref().and_then(|reason| reason.message.clone()),
                remedy: reason.as_ref().map(|reason| reason.remedy.clone()),
                ..row.clone()
            });
        }
    }
    rows
}

/// Networks that the pod's annotations request, as `<namespace>/<name>`.
fn requested_networks(pod: &Pod, namespace: &str) -> Vec<String> {
    let text = |key: &str| pod.annotations().get(key).map(String::as_str);
    let chosen = text(DEFAULT_NETWORK).map(|text| NetworkSelection::parse_default_network(text, namespace));
    let additional = text(NETWORKS).map(|text| NetworkSelection::parse_networks(text, namespace));
    let mut named: Vec<_> = chosen.into_iter().filter_map(Result::ok).flatten().collect();
    named.extend(additional.into_iter().filter_map(Result::ok).flatten());
    match named.is_empty() {
        // No network could be parsed from the annotations, so the text of an annotation is shown instead.
        true => text(NETWORKS).or(text(DEFAULT_NETWORK)).map(str::to_owned).into_iter().collect(),
        false => named.iter().map(NetworkSelection::display_name).collect(),
    }
}

fn interface(objects: &ClusterObjects, pod: &Pod, entry: &StatusEntry, row: InterfaceRow) -> InterfaceRow {
    let config = network_config(objects, &entry.name);
    let info = |key: &str| {
        let info = entry.device_info.as_ref()?;
        info.get("pci")?.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (pci, rdma) = (info("pci-address"), info("rdma-device"));
    let setting =
        |key: &str| config.as_ref()?.plugins.iter().find_map(|plugin| get_key(plugin, key).cloned());
    let parent = || setting("master").and_then(|name| name.as_str().map(str::to_owned));
    let guid = entry
        .mac
        .as_deref()
        .and_then(guid_of)
        .or_else(|| guid_from_node_state(objects, row.node.as_deref(), pci.as_deref()));
    InterfaceRow {
        network: entry.name.clone(),
        interface: entry.interface.clone(),
        device: rdma.or_else(|| pci.clone()).or_else(parent),
        ips: entry.ips.clone(),
        guid: guid.or_else(|| requested_guid(pod, &row.namespace, entry)).map(|guid| guid.to_string()),
        pkey: setting("pkey").and_then(|key| pkey(&key)).map(|key| key.to_string()),
        mac: entry.mac.clone(),
        mtu: entry.mtu,
        pci,
        ..row
    }
}

fn network_config(objects: &ClusterObjects, network: &str) -> Option<NetworkConfig> {
    let definition = objects.networks.iter().find(|definition| {
        network == format!("{}/{}", definition.namespace().unwrap_or_default(), definition.name_any())
    })?;
    definition.network_config().ok()
}

/// The port GUID in the last eight bytes of an IPoIB link-layer address (RFC 4391, 9.1.1).
fn guid_of(mac: &str) -> Option<Guid> {
    let octets: Vec<&str> = mac.split(':').collect();
    (octets.len() == 20).then(|| octets[12..].join(":").parse().ok())?
}

/// GUID of the VF at PCI address `pci`, as the node's SriovNetworkNodeState reports it.
fn guid_from_node_state(objects: &ClusterObjects, node: Option<&str>, pci: Option<&str>) -> Option<Guid> {
    let state = objects.states.iter().find(|state| Some(state.name_any().as_str()) == node)?;
    let functions = state.status.iter().flat_map(|status| status.interfaces.iter().flat_map(|pf| &pf.vfs));
    functions.into_iter().find(|vf| Some(vf.pci_address.as_str()) == pci)?.guid.as_ref()?.parse().ok()
}

/// GUID that the pod's networks annotation requests for the interface of `entry`.
fn requested_guid(pod: &Pod, namespace: &str, entry: &StatusEntry) -> Option<Guid> {
    let selections = NetworkSelection::parse_networks(pod.annotations().get(NETWORKS)?, namespace).ok()?;
    let one = selections.into_iter().find(|one| {
        entry.name == one.display_name() && (one.interface.is_none() || one.interface == entry.interface)
    })?;
    one.infiniband_guid.or_else(|| get_key(&one.cni_args, "guid")?.as_str().map(str::to_owned))?.parse().ok()
}

fn pkey(value: &Value) -> Option<PKey> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().and_then(|n| u16::try_from(n).ok()).and_then(PKey::new),
        _ => None,
    }
}
