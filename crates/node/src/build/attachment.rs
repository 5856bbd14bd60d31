//! Builds one attachment of a plan: its interface name, device, plugin configurations and steps.

use super::{allocated_devices, capability};
use crate::{
    kubelet::PodDevices,
    resolve::{DefaultNetwork, ResolvedAdd, ResolvedNetwork, plugin_types},
};
use ferroband_api::cncf::NetworkConfig;
use ferroband_attach::{
    CniVersion, device_info,
    plan::{Attachment, AttachmentDevice, PlanStep, StepKind},
};
use ferroband_config::{
    ConfigError, IbSriovConfig, PluginType, grant_runtime_config, inject_device, merge_cni_args, plugin_name,
};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};

/// Builds the attachment of the network that the runtime would use without Ferroband.
pub fn build_wrapped(add: &ResolvedAdd, default: &DefaultNetwork) -> Result<Attachment, Fault> {
    let network = &default.network;
    refuse_meta_plugins(&network.name, network)?;
    let steps = network.plugins.iter().cloned().map(|mut config| {
        grant_runtime_config(&mut config, &add.runtime_config);
        // The default network's own binaries are always executed, even if Ferroband has a built-in plugin of
        // the same type.
        PlanStep { config, kind: StepKind::Foreign }
    });
    Ok(Attachment {
        network: network.name.clone(),
        name: network.name.clone(),
        cni_version: parse_version(&network.name, network)?,
        ifname: add.ifname.clone(),
        default: true,
        steps: steps.collect(),
        unchecked: network.disable_check,
        ..Attachment::default()
    })
}

/// Returns a fault if the network contains a meta plugin, which would attach all networks of the pod again, or another
/// pod's networks under a configuration that the daemon has not checked.
fn refuse_meta_plugins(network: &str, config: &NetworkConfig) -> Result<(), Fault> {
    let Some(plugin) = plugin_types(config).find(|plugin| PluginType::is_meta_name(plugin)) else {
        return Ok(());
    };
    Err(Fault::new(
        FaultCode::InvalidConfig,
        format!("network {network}"),
        format!("it contains the meta plugin {plugin:?}, which cannot be a plugin of a network"),
        "remove this plugin from the network's configuration",
    ))
}

/// Whether `plugin` is built in and needs a device that its configuration does not name. Foreign plugins
/// check this themselves (case cni 87).
fn needs_device(plugin: &Map<String, Value>) -> bool {
    plugin_name(plugin) == "ib-sriov" && IbSriovConfig::lacks_device(plugin)
}

/// The fault for a pod without enough devices. The webhook normally adds the resource requests, but a pod
/// that is created while the webhook is unavailable does not get them.
fn no_device_fault(network: &str, resource: &str) -> Fault {
    Fault::new(
        FaultCode::NoDevice,
        format!("network {network}"),
        format!("the network needs a device of {resource}, but the pod requests none or too few"),
        format!(
            "recreate the pod, so that the webhook adds the resource; if it does not, check the webhook \
             (deployment ferroband-cluster), or add {resource} to a container's limits"
        ),
    )
}

/// Builds the attachment of a resolved network at `position` of the plan. Position 0 is the pod's default network.
pub fn build_resolved(
    add: &ResolvedAdd,
    position: usize,
    resolved: &ResolvedNetwork,
    devices: &mut PodDevices,
) -> Result<Attachment, Fault> {
    let ResolvedNetwork { selection, config, resource } = resolved;
    let network = selection.display_name();
    refuse_meta_plugins(&network, config)?;
    let default = position == 0;
    let ifname = match &selection.interface {
        // The default network always uses `CNI_IFNAME`, where the runtime expects the pod's addresses.
        _ if default => add.ifname.clone(),
        Some(name) => name.clone(),
        // The number is the network's position, as with Multus. Networks with explicit interface names count,
        // too.
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
    // The runtimeConfig of the CNI call applies to the default network only.
    let mut values = if default { add.runtime_config.clone() } else { Map::new() };
    values.extend(capability::from_selection(selection));
    let info_file = || device_info::cni_file_for_plugin(&network, &add.pod.container, &ifname);
    capability::add_device(&mut values, device.as_ref(), info_file);
    let plugins = config.plugins.iter().cloned().map(|mut plugin| {
        if let Some(device) = &device {
            inject_device(&mut plugin, &device.id);
        }
        grant_runtime_config(&mut plugin, &values);
        merge_cni_args(&mut plugin, &selection.cni_args);
        capability::set_requested_guid(&mut plugin, selection);
        capability::set_default_route_nic(&mut plugin, &add.pod.facts);
        remove_ib_kubernetes_flag(&mut plugin);
        plugin
    });
    let plugins: Vec<_> = plugins.collect();
    allocated_devices::check_allocated_devices(&network, &plugins, &add.devices)?;
    Ok(Attachment {
        steps: build_steps(&network, plugins.into_iter())?,
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

/// Removes `ibKubernetesEnabled`, which makes ib-sriov wait until ib-kubernetes has changed the pod's
/// networks annotation. Ferroband manages the partitions itself and relies on the port's P_Key table, because
/// the annotation is user input.
fn remove_ib_kubernetes_flag(plugin: &mut Map<String, Value>) {
    if plugin_name(plugin) == "ib-sriov" {
        IbSriovConfig::remove_ib_kubernetes_flag(plugin);
    }
}

fn parse_version(network: &str, config: &NetworkConfig) -> Result<String, Fault> {
    let version_text = &config.cni_version;
    match CniVersion::parse(version_text) {
        Some(version) => Ok(version.to_string()),
        None => {
            let error = ConfigError::IncompatibleVersion { version: version_text.clone() };
            Err(fault_in_network(network, error.fault()))
        }
    }
}

fn build_step(network: &str, config: Map<String, Value>) -> Result<PlanStep, Fault> {
    let by = StepKind::from_config(&config).map_err(|e| fault_in_network(network, e.fault()))?;
    Ok(PlanStep { config, kind: by })
}

/// Builds the steps of a network's plugins. An `rdma` plugin after `ib-sriov` becomes part of the step of
/// `ib-sriov`: the RDMA device must move together with the function, because moving it afterwards removes the
/// function's network interface.
pub fn build_steps(
    network: &str,
    plugins: impl Iterator<Item = Map<String, Value>>,
) -> Result<Vec<PlanStep>, Fault> {
    let mut steps: Vec<PlanStep> = Vec::new();
    for plugin in plugins {
        let step = build_step(network, plugin)?;
        match (&step.kind, find_vf_step(&mut steps)) {
            (StepKind::Rdma { device }, Some(vf)) if is_device_of(device.as_deref(), vf) => {
                vf.isolation = Some(true);
            }
            _ => steps.push(step),
        }
    }
    Ok(steps)
}

fn find_vf_step(steps: &mut [PlanStep]) -> Option<&mut IbSriovConfig> {
    steps.iter_mut().find_map(|step| match &mut step.kind {
        StepKind::IbSriov { vf, .. } => Some(vf),
        _ => None,
    })
}

fn is_device_of(device: Option<&str>, vf: &IbSriovConfig) -> bool {
    device.is_none_or(|device| device.parse() == Ok(vf.device))
}

/// Adds the network's name to a fault. For configuration faults, the name replaces `what`.
pub fn fault_in_network(network: &str, fault: Fault) -> Fault {
    let what = match fault.code {
        FaultCode::Undecodable | FaultCode::InvalidConfig | FaultCode::IncompatibleVersion => {
            format!("network {network}")
        }
        _ => format!("network {network}: {}", fault.what),
    };
    Fault { what, ..fault }
}
