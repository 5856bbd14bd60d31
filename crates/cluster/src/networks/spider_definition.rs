//! From a SpiderMultusConfig to its definition.
//!
//! ```text
//!  one section ──▶ main plugin [rdma] chainCNIJsonData… coordinator [tuning]      compact JSON, keys in a fixed order
//!  customCNI   ──▶ as written
//! ```

mod section;

use super::{
    DesiredNetwork, NetworkDefinition, NetworkSpecError, definition, generated_plugins::GeneratedConfList,
    json_text::compact,
};
use ferroband_api::{
    annotation::RESOURCE_NAME,
    spiderpool::{SpiderMultusConfig, SpiderMultusConfigSpec},
};
use ferroband_model::ResourceName;
use kube::{Resource, ResourceExt};
pub use section::SpiderSection;
use section::{coordinator_plugin, main_plugin, tuning_plugin};
use serde_json::value::RawValue;

use super::generated_plugins::{GeneratedPlugin, RdmaEntry};

/// On the object: the definition's name, where it is not the object's.
pub const NAME_ANNOTATION: &str = "multus.spidernet.io/cr-name";
/// On the object: the CNI version of the configuration.
const CNI_VERSION_ANNOTATION: &str = "multus.spidernet.io/cni-version";
/// On the object: the name in the configuration.
const CONFIG_NAME_ANNOTATION: &str = "cni.spidernet.io/cniconfig-name";
/// On the object, a pod or a namespace: the group whose networks a pod gets. The first counts if both are there.
pub const GROUP_ANNOTATIONS: [&str; 2] =
    ["cni.spidernet.io/rdma-resource-inject", "cni.spidernet.io/network-resource-inject"];

const CNI_VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/// The definition that `object` should have.
pub fn desired(object: &SpiderMultusConfig) -> Result<DesiredNetwork, NetworkSpecError> {
    let mut warnings = Vec::new();
    let section = SpiderSection::from_spec(&object.spec, &mut warnings)?;
    let name = definition_name(object)?;
    let resource = section.resource()?;
    check_group(object, &section, resource.as_ref())?;
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
            let called = object.annotations().get(CONFIG_NAME_ANNOTATION).filter(|name| !name.is_empty());
            let list = GeneratedConfList {
                cni_version: version,
                name: called.unwrap_or(&name),
                plugins: plugin_chain(section, &object.spec, &mut warnings)?,
            };
            let written = serde_json::to_string(&list);
            Some(
                written
                    .map_err(|source| NetworkSpecError::InvalidJson { field: "spec".to_owned(), source })?,
            )
        }
    };
    let mut annotations = definition::copied_annotations(object.annotations());
    // Of the others the resource is a device that pods share, which their plugin does not ask for.
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

/// The definition's name.
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
            let problem = format!("{name:?} is not a Kubernetes name");
            Err(NetworkSpecError::InvalidAnnotation { annotation: NAME_ANNOTATION, problem })
        }
    }
}

/// The group that the object is in, by its annotation or, as upstream has it, by the label made of that.
pub fn groups(object: &SpiderMultusConfig) -> impl Iterator<Item = (&'static str, &str)> {
    GROUP_ANNOTATIONS.into_iter().filter_map(|key| {
        let value = object.annotations().get(key).or_else(|| object.labels().get(key))?;
        Some((key, value.as_str())).filter(|(_, value)| !value.is_empty())
    })
}

/// Pods are given the whole group without being asked, so each of it must be complete.
fn check_group(
    object: &SpiderMultusConfig,
    section: &SpiderSection<'_>,
    resource: Option<&ResourceName>,
) -> Result<(), NetworkSpecError> {
    let Some((annotation, _)) = groups(object).next() else { return Ok(()) };
    let wrong =
        |problem: &str| Err(NetworkSpecError::InvalidAnnotation { annotation, problem: problem.to_owned() });
    if matches!(section, SpiderSection::Ovs(_) | SpiderSection::Custom(_)) {
        return wrong("a network of this type cannot be given to pods by group");
    }
    let pools = section.pools().is_some_and(|pools| !pools.ipv4.is_empty() || !pools.ipv6.is_empty());
    if !pools && !object.spec.disable_ipam {
        return wrong("the section has no ippools");
    }
    // An IPoIB network is shared by all pods of a node: its parent stands for the resource.
    if annotation == GROUP_ANNOTATIONS[0] && resource.is_none() && !matches!(section, SpiderSection::Ipoib(_))
    {
        return wrong("the section names no resource");
    }
    Ok(())
}

fn custom_config(text: &str) -> Result<Option<String>, NetworkSpecError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let checked: Result<&RawValue, _> = serde_json::from_str(text);
    checked.map_err(|source| NetworkSpecError::InvalidJson { field: "spec.customCNI".to_owned(), source })?;
    Ok(Some(text.to_owned()))
}

/// All plugins in order.
fn plugin_chain<'a>(
    section: &SpiderSection<'a>,
    spec: &'a SpiderMultusConfigSpec,
    warnings: &mut Vec<String>,
) -> Result<Vec<GeneratedPlugin<'a>>, NetworkSpecError> {
    let mut written = Vec::new();
    let mut isolated = false;
    for (position, text) in spec.chain_cni_json_data.iter().enumerate() {
        let field = || format!("spec.chainCNIJsonData[{position}]");
        let raw: Box<RawValue> = serde_json::from_str(text)
            .map_err(|source| NetworkSpecError::InvalidJson { field: field(), source })?;
        let kind = plugin_type(&raw).ok_or_else(|| NetworkSpecError::InvalidShape {
            field: field(),
            problem: "is no plugin: it has no type",
        })?;
        if kind == "rdma" && matches!(section, SpiderSection::IbSriov(_)) {
            warnings.push(RDMA_PLUGIN_LEFT_OUT.to_owned());
            isolated = true;
            continue;
        }
        let raw = RawValue::from_string(compact(&raw));
        written.push(GeneratedPlugin::Verbatim(
            raw.map_err(|source| NetworkSpecError::InvalidJson { field: field(), source })?,
        ));
    }
    let mut plugins = vec![main_plugin(section, spec, isolated, warnings)?];
    if let SpiderSection::Sriov(section) = section
        && section.enable_rdma.unwrap_or(section.rdma_isolation)
    {
        plugins.push(GeneratedPlugin::Rdma(RdmaEntry { r#type: "rdma" }));
    }
    plugins.append(&mut written);
    plugins.extend(coordinator_plugin(spec));
    plugins.extend(tuning_plugin(section));
    Ok(plugins)
}

/// Said where an `rdma` plugin is chained to an InfiniBand function: moving the RDMA device destroys the interface that
/// stands on it, so it has to move first.
pub const RDMA_PLUGIN_LEFT_OUT: &str = "the chained plugin rdma is left out: an InfiniBand function moves its RDMA device itself, \
    before its interface exists; write rdmaIsolation: true instead";

/// The type of a plugin.
pub fn plugin_type(raw: &RawValue) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(raw.get()).ok()?;
    Some(value.get("type")?.as_str()?.to_owned()).filter(|kind| !kind.is_empty())
}

#[cfg(test)]
mod tests;
