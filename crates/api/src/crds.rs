//! The definitions of all kinds, and their YAML.

use crate::{cncf, ferroband, spiderpool, sriov, whereabouts};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

/// One definition as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFile {
    /// `<group>_<plural>.yaml`.
    pub file_name: String,
    /// The definition.
    pub yaml: String,
}

/// The definitions of all kinds, always in the same order.
pub fn all_crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        ferroband::AddressBlock::crd(),
        ferroband::Fabric::crd(),
        ferroband::GuidBlock::crd(),
        ferroband::NodePartitions::crd(),
        ferroband::Partition::crd(),
        ferroband::SubnetManagerHost::crd(),
        preserve_foreign_fields(cncf::NetworkAttachmentDefinition::crd()),
        preserve_foreign_fields(whereabouts::IPPool::crd()),
        preserve_foreign_fields(whereabouts::OverlappingRangeIPReservation::crd()),
        preserve_foreign_fields(spiderpool::SpiderCoordinator::crd()),
        preserve_foreign_fields(without_status_subresource(spiderpool::SpiderEndpoint::crd())),
        preserve_foreign_fields(spiderpool::SpiderIPPool::crd()),
        preserve_foreign_fields(spiderpool::SpiderMultusConfig::crd()),
        preserve_foreign_fields(spiderpool::SpiderReservedIP::crd()),
        preserve_foreign_fields(sriov::SriovIBNetwork::crd()),
        sriov::with_validation_rules(preserve_foreign_fields(sriov::SriovNetworkNodePolicy::crd())),
        preserve_foreign_fields(sriov::SriovNetworkNodeState::crd()),
        sriov::with_validation_rules(preserve_foreign_fields(sriov::SriovNetworkPoolConfig::crd())),
        sriov::with_validation_rules(preserve_foreign_fields(sriov::SriovOperatorConfig::crd())),
    ];
    for crd in &mut crds {
        for schema in crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
            schema.open_api_v3_schema.iter_mut().for_each(|root| for_each_schema(root, &clear_nullable));
        }
    }
    crds.sort_by(|a, b| (&a.spec.group, &a.spec.names.plural).cmp(&(&b.spec.group, &b.spec.names.plural)));
    crds
}

/// The definitions as files, in the order of [`all_crds`].
pub fn render_crds() -> Result<Vec<CrdFile>, serde_saphyr::ser::Error> {
    let render = |crd: CustomResourceDefinition| {
        let file_name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        Ok(CrdFile { file_name, yaml: serde_saphyr::to_string(&crd)? })
    };
    all_crds().into_iter().map(render).collect()
}

/// Makes a definition of somebody else's kind keep whatever its objects contain.
///
/// Newer releases of theirs may write fields that are not known here, at any depth; a definition of ours that
/// pruned them would lose data. What is known stays described and validated.
fn preserve_foreign_fields(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        // Theirs do not demand a spec, so objects without one exist.
        root.required = None;
        for (name, field) in root.properties.iter_mut().flatten() {
            if name == "spec" || name == "status" {
                // Theirs fills nothing in for an object that has none.
                field.default = None;
                for_each_schema(field, &preserve_unknown_fields);
            }
        }
    }
    crd
}

/// Marks an object with described fields. A map needs no mark: all its keys are kept anyway.
fn preserve_unknown_fields(schema: &mut JSONSchemaProps) {
    if schema.type_.as_deref() == Some("object") && schema.additional_properties.is_none() {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
}

/// Lets the API server drop a `null`, as it does where a field is not nullable. The derived schema would store it
/// instead, and refuse it beside an enumeration.
fn clear_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
}

/// Changes a schema and all that it is made of.
fn for_each_schema(schema: &mut JSONSchemaProps, change: &dyn Fn(&mut JSONSchemaProps)) {
    change(schema);
    schema.properties.iter_mut().flatten().for_each(|(_, field)| for_each_schema(field, change));
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        for_each_schema(item, change);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        for_each_schema(value, change);
    }
}

/// Spiderpool writes endpoints whole, status included.
fn without_status_subresource(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

#[cfg(test)]
mod tests;
