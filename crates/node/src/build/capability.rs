//! Dynamic configuration of plugins: capabilities and `cni-args`.
//!
//! A plugin receives a value only if its `capabilities` contains the key with `true` (CNI conventions, "dynamic
//! plugin fields"), except for the GUID of the built-in `ib-sriov`. `cni-args` go to every plugin of a chain.

use crate::caches::PodFacts;
use ferroband_api::annotation::NetworkSelection;
use ferroband_attach::plan::AttachmentDevice;
use ferroband_config::{CoordinatorConfig, merge_cni_args, plugin_name};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns the values that the pod's networks annotation sets for the plugins of a network, by capability
/// name.
pub fn from_selection(selection: &NetworkSelection) -> Map<String, Value> {
    let mut values = Map::new();
    let mut put = |key: &str, value: Value| drop(values.insert(key.to_owned(), value));
    if !selection.ips.is_empty() {
        put("ips", json!(selection.ips));
    }
    if let Some(mac) = &selection.mac {
        put("mac", json!(mac));
    }
    if let Some(guid) = &selection.infiniband_guid {
        put("infinibandGUID", json!(guid));
    }
    if !selection.port_mappings.is_empty() {
        put("portMappings", json!(selection.port_mappings));
    }
    if let Some(bandwidth) = &selection.bandwidth {
        put("bandwidth", json!(bandwidth));
    }
    if let Some(device) = &selection.device_id {
        put("deviceID", json!(device));
    }
    values
}

/// Adds the device that the kubelet allocated for a network to the capability values. It overrides a device
/// that the pod's networks annotation names.
pub fn add_device(
    values: &mut Map<String, Value>,
    device: Option<&AttachmentDevice>,
    info_file: impl FnOnce() -> String,
) {
    if let Some(device) = device {
        values.insert("deviceID".to_owned(), json!(device.id));
    }
    if values.contains_key("deviceID") {
        values.insert("CNIDeviceInfoFile".to_owned(), json!(info_file()));
    }
}

/// Returns the IP and MAC addresses that the pod's networks annotation requests as `CNI_ARGS`, for plugins
/// that predate capabilities.
pub fn legacy_args(selection: &NetworkSelection) -> BTreeMap<String, String> {
    let ips = (!selection.ips.is_empty()).then(|| ("IP".to_owned(), selection.ips.join(",")));
    let mac = selection.mac.clone().map(|mac| ("MAC".to_owned(), mac));
    ips.into_iter().chain(mac).collect()
}

/// Passes the GUID that the pod's networks annotation requests (`infiniband-guid`) to the built-in `ib-sriov`, even if
/// its configuration lacks the capability. Otherwise a GUID in `cni-args` would be used instead, without an error.
pub fn set_requested_guid(plugin: &mut Map<String, Value>, selection: &NetworkSelection) {
    if let Some(guid) = &selection.infiniband_guid
        && plugin_name(plugin) == "ib-sriov"
    {
        merge_cni_args(plugin, &Map::from_iter([("guid".to_owned(), json!(guid))]));
    }
}

/// Sets the interface of the pod's default route in a coordinator's configuration, if the pod's annotation
/// names one.
pub fn set_default_route_nic(plugin: &mut Map<String, Value>, facts: &PodFacts) {
    let default_route_nic =
        facts.annotations.get("ipam.spidernet.io/default-route-nic").filter(|nic| !nic.is_empty());
    if let Some(nic) = default_route_nic
        && plugin_name(plugin) == "coordinator"
    {
        CoordinatorConfig::set_default_route(plugin, nic);
    }
}
