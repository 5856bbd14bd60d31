//! Converts a SpiderMultusConfig to its NetworkAttachmentDefinition.
//!
//! ```text
//!  one section ──▶ main plugin [rdma] chainCNIJsonData… coordinator [tuning]      compact JSON, keys in a fixed order
//!  customCNI   ──▶ copied unchanged
//! ```

mod section;

use super::{
    DesiredNetwork, NetworkDefinition, NetworkSpecError, bounds, coordinator_spec, definition,
    generated_plugins::GeneratedConfList, json_text::compact,
};
use ferroband_api::{
    annotation::RESOURCE_NAME,
    spiderpool::{SpiderMultusConfig, SpiderMultusConfigSpec},
};
use ferroband_config::plugin_name;
use ferroband_model::{ConfigObject, ResourceName};
use kube::{Resource, ResourceExt};
pub use section::SpiderSection;
use section::{coordinator_plugin, main_plugin, tuning_plugin};
use serde_json::value::RawValue;

use super::generated_plugins::{GeneratedPlugin, RdmaEntry};

/// Annotation of a SpiderMultusConfig that sets the name of its NetworkAttachmentDefinition. The default is
/// the name of the SpiderMultusConfig.
pub const NAME_ANNOTATION: &str = "multus.spidernet.io/cr-name";
/// Annotation of a SpiderMultusConfig that sets `cniVersion` in the CNI configuration.
const CNI_VERSION_ANNOTATION: &str = "multus.spidernet.io/cni-version";
/// Annotation of a SpiderMultusConfig that sets `name` in the CNI configuration.
const CONFIG_NAME_ANNOTATION: &str = "cni.spidernet.io/cniconfig-name";
/// Annotations that assign a SpiderMultusConfig, a pod or a namespace to a group. A pod gets all networks of
/// its group. The first annotation has precedence.
pub const GROUP_ANNOTATIONS: [&str; 2] =
    ["cni.spidernet.io/rdma-resource-inject", "cni.spidernet.io/network-resource-inject"];

const CNI_VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/// Computes the desired NetworkAttachmentDefinition of `object`, and warnings about tolerated deviations from
/// the documented format.
pub fn desired(object: &SpiderMultusConfig) -> Result<DesiredNetwork, NetworkSpecError> {
    let mut warnings = Vec::new();
    let section = SpiderSection::from_spec(&object.spec, &mut warnings)?;
    let name = definition_name(object)?;
    let resource = section.resource()?;
    check_group(object, &section, resource.as_ref())?;
    if let Some(coordinator) = &object.spec.coordinator {
        coordinator_spec::validate("spec.coordinator", coordinator)?;
        let has_prefix = coordinator.pod_mac_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty());
        if has_prefix && !section.has_own_mac() {
            warnings.push(MAC_PREFIX_HAS_NO_EFFECT.to_owned());
        }
    }
    let config = match &section {
        SpiderSection::Custom(text) => custom_config(text)?,
        section => {
            let version = match object.annotations().get(CNI_VERSION_ANNOTATION) {
                None => "0.3.1",
                Some(version) if CNI_VERSIONS.contains(&version.as_str()) => version,
                Some(other) => {
                    let problem = format!("{other:?} is not one of {}", CNI_VERSIONS.join(", "));
                    return Err(NetworkSpecError::InvalidAnnotation {
                        annotation: CNI_VERSION_ANNOTATION,
                        problem,
                    });
                }
            };
            let config_name =
                object.annotations().get(CONFIG_NAME_ANNOTATION).filter(|name| !name.is_empty());
            let list = GeneratedConfList {
                cni_version: version,
                name: config_name.unwrap_or(&name),
                plugins: plugin_chain(section, &object.spec, &mut warnings)?,
            };
            let json = serde_json::to_string(&list);
            Some(json.map_err(|source| NetworkSpecError::InvalidJson { field: "spec".to_owned(), source })?)
        }
    };
    config.as_deref().map_or(Ok(()), bounds::check_config)?;
    let mut annotations = definition::copied_annotations(object.annotations());
    // Only networks of these two types get a device through the resourceName annotation. For other types the
    // resource is a shared RDMA device, which their plugin does not use.
    if let Some(resource) =
        resource.filter(|_| matches!(section, SpiderSection::IbSriov(_) | SpiderSection::Sriov(_)))
    {
        annotations.insert(RESOURCE_NAME.to_owned(), resource.to_string());
    }
    let definition = NetworkDefinition {
        namespace: object.namespace().unwrap_or_default(),
        name,
        annotations,
        controller: object.controller_owner_ref(&()),
        config,
    };
    Ok(DesiredNetwork { definition, warnings })
}

/// Returns the name of the object's NetworkAttachmentDefinition. Fails if `NAME_ANNOTATION` contains an
/// invalid name.
pub fn definition_name(object: &SpiderMultusConfig) -> Result<String, NetworkSpecError> {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        !label.is_empty()
            && label.bytes().all(|b| inner(b) || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match object.annotations().get(NAME_ANNOTATION) {
        None => Ok(object.name_any()),
        Some(name) if name.len() <= 253 && name.split('.').all(label) => Ok(name.clone()),
        Some(name) => {
            let problem = format!("{name:?} is not a valid Kubernetes name");
            Err(NetworkSpecError::InvalidAnnotation { annotation: NAME_ANNOTATION, problem })
        }
    }
}

/// Returns key and value of each group annotation of the object. If an annotation is missing, the label of
/// the same key, which Spiderpool derives from the annotation, is used.
pub fn groups(object: &SpiderMultusConfig) -> impl Iterator<Item = (&'static str, &str)> {
    GROUP_ANNOTATIONS.into_iter().filter_map(|key| {
        let value = object.annotations().get(key).or_else(|| object.labels().get(key))?;
        Some((key, value.as_str())).filter(|(_, value)| !value.is_empty())
    })
}

/// Checks that an object in a group has the address pools and the device resource that a pod needs, because
/// the webhook adds all networks of the group to the pod.
fn check_group(
    object: &SpiderMultusConfig,
    section: &SpiderSection<'_>,
    resource: Option<&ResourceName>,
) -> Result<(), NetworkSpecError> {
    let Some((annotation, _)) = groups(object).next() else { return Ok(()) };
    let invalid =
        |problem: &str| Err(NetworkSpecError::InvalidAnnotation { annotation, problem: problem.to_owned() });
    if matches!(section, SpiderSection::Ovs(_) | SpiderSection::Custom(_)) {
        return invalid("a network of type ovs or custom cannot be in a group");
    }
    let pools = section.pools().is_some_and(|pools| !pools.ipv4.is_empty() || !pools.ipv6.is_empty());
    if !pools && !object.spec.disable_ipam {
        return invalid("the section of the network sets no ippools, which a network in a group needs");
    }
    // An IPoIB network needs no resource, because all pods of a node share its parent interface.
    if annotation == GROUP_ANNOTATIONS[0] && resource.is_none() && !matches!(section, SpiderSection::Ipoib(_))
    {
        return invalid("the section of the network sets no resource name, which a network in a group needs");
    }
    Ok(())
}

fn custom_config(text: &str) -> Result<Option<String>, NetworkSpecError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    bounds::check_text("spec.customCNI", text)?;
    let checked: Result<&RawValue, _> = serde_json::from_str(text);
    checked.map_err(|source| NetworkSpecError::InvalidJson { field: "spec.customCNI".to_owned(), source })?;
    Ok(Some(text.to_owned()))
}

/// Generates all plugins of the chain, in the order that the module documentation shows.
fn plugin_chain<'a>(
    section: &SpiderSection<'a>,
    spec: &'a SpiderMultusConfigSpec,
    warnings: &mut Vec<String>,
) -> Result<Vec<GeneratedPlugin<'a>>, NetworkSpecError> {
    let mut chained = Vec::new();
    let mut isolated = false;
    bounds::check_plugin_count("spec.chainCNIJsonData", spec.chain_cni_json_data.len())?;
    for (position, text) in spec.chain_cni_json_data.iter().enumerate() {
        let field = || format!("spec.chainCNIJsonData[{position}]");
        bounds::check_text(&field(), text)?;
        let raw: Box<RawValue> = serde_json::from_str(text)
            .map_err(|source| NetworkSpecError::InvalidJson { field: field(), source })?;
        let kind = plugin_type(&raw).ok_or_else(|| NetworkSpecError::InvalidShape {
            field: field(),
            problem: "is not a CNI plugin: it has no type",
        })?;
        if kind == "rdma" && matches!(section, SpiderSection::IbSriov(_)) {
            warnings.push(RDMA_PLUGIN_LEFT_OUT.to_owned());
            isolated = true;
            continue;
        }
        let raw = RawValue::from_string(compact(&raw));
        chained.push(GeneratedPlugin::Verbatim(
            raw.map_err(|source| NetworkSpecError::InvalidJson { field: field(), source })?,
        ));
    }
    let mut plugins = vec![main_plugin(section, spec, isolated, warnings)?];
    if let SpiderSection::Sriov(section) = section
        && section.enable_rdma.unwrap_or(section.rdma_isolation)
    {
        plugins.push(GeneratedPlugin::Rdma(RdmaEntry { r#type: "rdma" }));
    }
    plugins.append(&mut chained);
    plugins.extend(coordinator_plugin(spec));
    plugins.extend(tuning_plugin(section));
    Ok(plugins)
}

/// Warning that the `rdma` plugin after `ib-sriov` is omitted. Moving an RDMA device destroys its IPoIB interface, so
/// `ib-sriov` must move the device before it creates the interface.
pub const RDMA_PLUGIN_LEFT_OUT: &str = "the chained plugin rdma is omitted: ib-sriov itself moves the RDMA device of \
    an InfiniBand VF, before the interface is created; set rdmaIsolation: true instead";

/// Warning that `podMACPrefix` does not change the address of the network's interfaces.
const MAC_PREFIX_HAS_NO_EFFECT: &str = "podMACPrefix has no effect on this network: an InfiniBand address depends on \
    the port, and an ipvlan interface has the address of its master";

pub fn plugin_type(raw: &RawValue) -> Option<String> {
    let ConfigObject(plugin) = serde_json::from_str(raw.get()).ok()?;
    Some(plugin_name(&plugin).to_owned()).filter(|kind| !kind.is_empty())
}

#[cfg(test)]
mod tests;
