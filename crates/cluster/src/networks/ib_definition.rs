//! Converts a SriovIBNetwork to its NetworkAttachmentDefinition.

use super::definition::{GENERATED, OWNER_REF};
use super::spider_definition::{RDMA_PLUGIN_LEFT_OUT, plugin_type};
use super::{DesiredNetwork, NetworkDefinition, NetworkSpecError, bounds, json_text::indent, pkey_text};
use ferroband_api::{annotation::RESOURCE_NAME, sriov::SriovIBNetwork};
use ferroband_model::ResourceName;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::value::RawValue;

/// Start of every owner-ref annotation that refers to a SriovIBNetwork.
const REFERENCE_PREFIX: &str = "SriovIBNetwork.sriovnetwork.openshift.io/";

/// Returns the value of the owner-ref annotation for the SriovIBNetwork `namespace/name`.
pub fn reference(namespace: &str, name: &str) -> String {
    format!("{REFERENCE_PREFIX}{namespace}/{name}")
}

/// Parses an owner-ref annotation. Returns namespace and name, or `None` if it does not refer to a SriovIBNetwork.
pub fn parse_reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(REFERENCE_PREFIX)?.split_once('/')
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeneratedIbConf<'a> {
    cni_version: &'static str,
    name: &'a str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    single: Option<IbSriovMainEntry<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<GeneratedIbPlugin<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum GeneratedIbPlugin<'a> {
    Main(IbSriovMainEntry<'a>),
    Verbatim(&'a RawValue),
}

#[derive(Serialize)]
struct IbSriovMainEntry<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pkey: Option<String>,
    #[serde(rename = "rdmaIsolation", skip_serializing_if = "Option::is_none")]
    rdma_isolation: Option<bool>,
    #[serde(rename = "ibKubernetesEnabled", skip_serializing_if = "Option::is_none")]
    ib_kubernetes_enabled: Option<bool>,
    ipam: Box<RawValue>,
}

/// Computes the desired NetworkAttachmentDefinition of `object`. Its device resource is
/// `<prefix>/<resourceName>`. The caller must check whether the object may have a definition in another
/// namespace.
pub fn desired(object: &SriovIBNetwork, prefix: &str) -> Result<DesiredNetwork, NetworkSpecError> {
    let mut warnings = Vec::new();
    let spec = &object.spec;
    let (own, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let resource = match spec.resource_name.split_once('/') {
        None => ResourceName::new(prefix, &spec.resource_name),
        Some((prefix, name)) => ResourceName::new(prefix, name),
    };
    let resource =
        resource.map_err(|source| NetworkSpecError::InvalidValue { field: "spec.resourceName", source })?;
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());

    let chained = match non_empty(&spec.meta_plugins) {
        Some(text) => plugin_list("spec.metaPlugins", &text)?,
        None => Vec::new(),
    };
    let is_rdma = |plugin: &RawValue| plugin_type(plugin).as_deref() == Some("rdma");
    let rdma_chained = chained.iter().any(|plugin| is_rdma(plugin));
    if rdma_chained {
        warnings.push(RDMA_PLUGIN_LEFT_OUT.to_owned());
    }
    let main = IbSriovMainEntry {
        r#type: "ib-sriov",
        capabilities: non_empty(&spec.capabilities)
            .map(|text| json_object("spec.capabilities", text))
            .transpose()?,
        link_state: spec.link_state.as_deref().filter(|state| !state.is_empty()),
        pkey: pkey_text("spec.pkey", spec.pkey.as_ref(), &mut warnings)?,
        rdma_isolation: if rdma_chained { Some(true) } else { spec.rdma_isolation },
        ib_kubernetes_enabled: spec.ib_kubernetes_enabled,
        ipam: json_object("spec.ipam", non_empty(&spec.ipam).unwrap_or_else(|| "{}".to_owned()))?,
    };
    let rest: Vec<_> =
        chained.iter().filter(|plugin| !is_rdma(plugin)).map(|p| GeneratedIbPlugin::Verbatim(p)).collect();
    let (single, plugins) = if chained.is_empty() {
        (Some(main), Vec::new())
    } else {
        (None, [GeneratedIbPlugin::Main(main)].into_iter().chain(rest).collect())
    };
    let config = GeneratedIbConf { cni_version: "1.0.0", name: &name, single, plugins };
    let json = serde_json::value::to_raw_value(&config);
    let json = json.map_err(|source| NetworkSpecError::InvalidJson { field: "spec".to_owned(), source })?;
    let config = indent(&json, 4);
    bounds::check_config(&config)?;

    let namespace = spec.network_namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| own.clone());
    let annotations = [
        (RESOURCE_NAME.to_owned(), resource.to_string()),
        (OWNER_REF.to_owned(), reference(&own, &name)),
        (GENERATED.to_owned(), format!("{namespace}/{name}")),
    ];
    let definition = NetworkDefinition {
        // The owner must be in the same namespace: Kubernetes does not find an owner in another one and would delete
        // the definition.
        controller: if namespace == own { object.controller_owner_ref(&()) } else { None },
        namespace,
        annotations: annotations.into(),
        config: Some(config),
        name,
    };
    Ok(DesiredNetwork { definition, warnings })
}

/// Returns `text` as raw JSON. Fails if it is not a JSON object.
fn json_object(field: &str, text: String) -> Result<Box<RawValue>, NetworkSpecError> {
    let json = |source| NetworkSpecError::InvalidJson { field: field.to_owned(), source };
    bounds::check_text(field, &text)?;
    let raw = RawValue::from_string(text).map_err(json)?;
    match raw.get().trim_start().starts_with('{') {
        true => Ok(raw),
        false => {
            Err(NetworkSpecError::InvalidShape { field: field.to_owned(), problem: "must be a JSON object" })
        }
    }
}

/// Parses a JSON list of plugins that is written without the enclosing brackets, as `metaPlugins` is.
fn plugin_list(field: &str, text: &str) -> Result<Vec<Box<RawValue>>, NetworkSpecError> {
    let json = |source| NetworkSpecError::InvalidJson { field: field.to_owned(), source };
    bounds::check_text(field, text)?;
    let plugins: Vec<Box<RawValue>> = serde_json::from_str(&format!("[{text}]")).map_err(json)?;
    bounds::check_plugin_count(field, plugins.len())?;
    if plugins.iter().any(|plugin| plugin_type(plugin).is_none()) {
        return Err(NetworkSpecError::InvalidShape {
            field: field.to_owned(),
            problem: "contains a plugin without a type",
        });
    }
    Ok(plugins)
}

#[cfg(test)]
mod tests;
