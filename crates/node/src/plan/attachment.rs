//! One attachment of a plan.

use super::{
    DefaultNetwork, PlanInput, ResolvedNetwork, capability,
    step::{build_steps, fault_in_network},
};
use crate::kubelet::PodDevices;
use ferroband_api::cncf::NetworkConfig;
use ferroband_attach::{
    CniVersion, device_info,
    plan::{Attachment, AttachmentDevice, PlanStep, StepKind},
};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};

/// The network that the runtime would use without us.
pub fn build_wrapped(given: &PlanInput<'_>, default: &DefaultNetwork) -> Result<Attachment, Fault> {
    let network = &default.network;
    let steps = network.plugins.iter().cloned().map(|mut config| {
        capability::set_runtime_config(&mut config, given.runtime_config);
        // Never ours, whatever it is called: it is what the cluster had before.
        PlanStep { config, kind: StepKind::Foreign }
    });
    Ok(Attachment {
        network: network.name.clone(),
        name: network.name.clone(),
        cni_version: parse_version(&network.name, network)?,
        ifname: given.ifname.to_owned(),
        default: true,
        steps: steps.collect(),
        unchecked: network.disable_check,
        ..Attachment::default()
    })
}

/// Whether a plugin of ours can do nothing without a device and is not told one in its configuration. A foreign one
/// says so itself (case 87).
fn needs_device(plugin: &serde_json::Map<String, serde_json::Value>) -> bool {
    let text = |key: &str| plugin.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    text("type") == "ib-sriov" && text("deviceID").is_empty() && text("pciBusID").is_empty()
}

/// The webhook fills in the resources of pods, but nobody waits for it: a pod may have been created without.
fn no_device_fault(network: &str, resource: &str) -> Fault {
    Fault::new(
        FaultCode::NoDevice,
        format!("network {network}"),
        format!(
            "it needs a device of {resource}, and the pod asks for none, or for fewer than its networks need"
        ),
        format!(
            "recreate the pod: the resource is then filled in; if it is not, the webhook is away \
             (deployment ferroband-cluster), and {resource} has to be written into a container's limits"
        ),
    )
}

/// A network that a definition describes, at `position` of the plan. At the first it is the pod's default network.
pub fn build_resolved(
    given: &PlanInput<'_>,
    position: usize,
    chosen: &ResolvedNetwork,
    devices: &mut PodDevices,
) -> Result<Attachment, Fault> {
    let ResolvedNetwork { selection, config, resource } = chosen;
    let network = selection.display_name();
    let default = position == 0;
    let ifname = match &selection.interface {
        // The runtime looks for the default network's addresses on this one.
        _ if default => given.ifname.to_owned(),
        Some(asked) => asked.clone(),
        // By position, whether or not earlier networks ask for names of their own, as Multus counts.
        None => format!("net{position}"),
    };
    let device = resource.as_ref().and_then(|resource| {
        let id = devices.take_next(resource)?;
        Some(AttachmentDevice { resource: resource.clone(), id })
    });
    if let (Some(resource), None) = (resource, &device)
        && selection.device_id.is_none()
        && config.plugins.iter().any(needs_device)
    {
        return Err(no_device_fault(&network, resource));
    }
    // What the runtime gives is meant for the default network alone.
    let mut values = if default { given.runtime_config.clone() } else { serde_json::Map::new() };
    values.extend(capability::from_selection(selection));
    let info_file = device_info::cni_file_for_plugin(&network, given.container, &ifname);
    capability::add_device(&mut values, device.as_ref(), info_file);
    let plugins = config.plugins.iter().cloned().map(|mut plugin| {
        if let Some(device) = &device {
            capability::inject_device(&mut plugin, device);
        }
        capability::set_runtime_config(&mut plugin, &values);
        capability::merge_cni_args(&mut plugin, &selection.cni_args);
        capability::set_default_route_nic(&mut plugin, given.facts);
        remove_ib_kubernetes_flag(&mut plugin);
        plugin
    });
    Ok(Attachment {
        steps: build_steps(&network, plugins)?,
        name: config.name.clone(),
        cni_version: parse_version(&network, config)?,
        ifname,
        default,
        device,
        args: capability::legacy_args(selection),
        unchecked: config.disable_check,
        network,
        ..Attachment::default()
    })
}

/// A fabric manager of another name is not waited for: we are it. What its mark in the annotation says is user input and
/// counts for nothing; the port's own table does.
fn remove_ib_kubernetes_flag(plugin: &mut Map<String, Value>) {
    if plugin.get("type").and_then(Value::as_str) == Some("ib-sriov") {
        plugin.remove("ibKubernetesEnabled");
    }
}

fn parse_version(network: &str, config: &NetworkConfig) -> Result<String, Fault> {
    let asked = &config.cni_version;
    match CniVersion::parse(asked) {
        Some(version) => Ok(version.to_string()),
        None => {
            let error = ferroband_attach::Error::IncompatibleVersion { asked: asked.clone() };
            Err(fault_in_network(network, error.fault()))
        }
    }
}
