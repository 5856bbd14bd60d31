//! Generates the CustomResourceDefinitions of all kinds, with the changes that the derived schemas need.

use crate::{cncf, ferroband, spiderpool, sriov, whereabouts};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

/// A CRD rendered as a YAML file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFile {
    /// `<group>_<plural>.yaml`.
    pub file_name: String,
    /// Content of the file: one CustomResourceDefinition.
    pub yaml: String,
}

/// Returns the CRDs of all kinds, sorted by group and plural.
pub fn all_crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        ferroband::AddressBlock::crd(),
        ferroband::AddressIndex::crd(),
        ferroband::AddressState::crd(),
        ferroband::Fabric::crd(),
        ferroband::GuidBlock::crd(),
        ferroband::NodePartitions::crd(),
        ferroband::Partition::crd(),
        ferroband::SpiderPoolCopy::crd(),
        ferroband::StickyAddresses::crd(),
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

/// Renders the CRDs as YAML files, in the order of [`all_crds`].
pub fn render_crds() -> Result<Vec<CrdFile>, serde_saphyr::ser::Error> {
    let render = |crd: CustomResourceDefinition| {
        let file_name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        Ok(CrdFile { file_name, yaml: serde_saphyr::to_string(&crd)? })
    };
    all_crds().into_iter().map(render).collect()
}

/// Makes the CRD of another project's kind preserve unknown fields.
///
/// Newer upstream releases may write unknown fields at any depth, and pruning them would lose data. Known fields stay
/// described and validated.
fn preserve_foreign_fields(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        // The upstream CRDs do not require spec, so objects without one exist.
        root.required = None;
        for (name, field) in root.properties.iter_mut().flatten() {
            if name == "spec" || name == "status" {
                // The upstream CRDs have no default for the whole spec or status.
                field.default = None;
                for_each_schema(field, &preserve_unknown_fields);
            }
        }
    }
    crd
}

/// Sets `x-kubernetes-preserve-unknown-fields` on objects. Maps keep all keys without it.
fn preserve_unknown_fields(schema: &mut JSONSchemaProps) {
    if schema.type_.as_deref() == Some("object") && schema.additional_properties.is_none() {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
}

/// Removes the derived `nullable: true`. The API server drops `null` from fields that are not nullable. In nullable
/// fields it would store `null`, or reject it if the field has an enum.
fn clear_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
}

/// Applies `change` to a schema and all nested schemas.
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

/// Removes the status subresource. Spiderpool writes a SpiderEndpoint and its status in one request, and with the
/// subresource the API server would drop the status from it.
fn without_status_subresource(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

#[cfg(test)]
mod tests;
