//! Compares the desired NetworkAttachmentDefinition with the existing one.

use ferroband_api::{annotation::RESOURCE_NAME, cncf::NetworkAttachmentDefinition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Annotation of a NetworkAttachmentDefinition that was generated from a SriovIBNetwork. The value refers to the
/// SriovIBNetwork.
pub const OWNER_REF: &str = "sriovnetwork.openshift.io/owner-ref";
/// Annotation of a NetworkAttachmentDefinition that Ferroband wrote for a SriovIBNetwork. The value is the definition's own
/// namespace and name, so that a copy of the object does not count as written by Ferroband.
pub const GENERATED: &str = "ferroband.io/generated";
/// Annotation in which kubectl stores the object that it applied. It is not copied to the
/// NetworkAttachmentDefinition.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations with these prefixes come from the source object (SpiderMultusConfig or SriovIBNetwork). They
/// are removed from the NetworkAttachmentDefinition when the source object no longer has them.
const COPIED_PREFIXES: [&str; 2] = ["multus.spidernet.io/", "cni.spidernet.io/"];

/// The NetworkAttachmentDefinition that should exist for a SpiderMultusConfig or SriovIBNetwork.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkDefinition {
    pub namespace: String,
    pub name: String,
    /// Annotations that the NetworkAttachmentDefinition must have. Its other annotations are left unchanged,
    /// except those that were copied from the source object and no longer exist there.
    pub annotations: BTreeMap<String, String>,
    /// Owner reference to the source object; absent if the source object is in another namespace.
    pub controller: Option<OwnerReference>,
    /// CNI configuration as JSON text. If absent, the network is configured by a CNI configuration file on
    /// each node.
    pub config: Option<String>,
}

/// Difference between the existing NetworkAttachmentDefinition and the desired one.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionDiff {
    Same,
    /// The JSON merge patch to apply. It contains the resourceVersion of the existing object.
    Patch(Value),
    /// The existing NetworkAttachmentDefinition belongs to the owner that the string names. It must not be
    /// changed.
    Foreign(String),
}

impl NetworkDefinition {
    pub fn to_object(&self) -> NetworkAttachmentDefinition {
        let mut object = NetworkAttachmentDefinition::new(&self.name, Default::default());
        object.metadata.namespace = Some(self.namespace.clone());
        object.metadata.annotations = Some(self.annotations.clone()).filter(|all| !all.is_empty());
        object.metadata.owner_references = self.controller.clone().map(|owner| vec![owner]);
        object.spec.spec.config = self.config.clone();
        object
    }

    /// Compares `existing` with the desired definition. A NetworkAttachmentDefinition without an owner is
    /// adopted, as Spiderpool and the SR-IOV operator do, because users may create it before the source
    /// object.
    pub fn diff(&self, existing: &NetworkAttachmentDefinition) -> DefinitionDiff {
        let uid = self.controller.as_ref().map(|owner| owner.uid.as_str());
        let controller = existing.owner_references().iter().find(|owner| owner.controller == Some(true));
        if let Some(other) = controller.filter(|owner| Some(owner.uid.as_str()) != uid) {
            return DefinitionDiff::Foreign(format!("{} {}", other.kind, other.name));
        }
        let owner_ref = existing.annotations().get(OWNER_REF);
        if let Some(other) = owner_ref.filter(|name| Some(*name) != self.annotations.get(OWNER_REF)) {
            return DefinitionDiff::Foreign(other.clone());
        }
        let mut annotations = Map::new();
        for (key, value) in &self.annotations {
            if existing.annotations().get(key) != Some(value) {
                annotations.insert(key.clone(), json!(value));
            }
        }
        for key in existing.annotations().keys() {
            let managed =
                key == RESOURCE_NAME || COPIED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            if managed && !self.annotations.contains_key(key) {
                annotations.insert(key.clone(), Value::Null);
            }
        }
        let mut patch = Map::new();
        let mut metadata = Map::new();
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into());
        }
        if let Some(owner) = self.controller.as_ref().filter(|_| controller.is_none()) {
            let mut owners = existing.owner_references().to_vec();
            owners.retain(|other| other.uid != owner.uid);
            owners.push(owner.clone());
            metadata.insert("ownerReferences".to_owned(), json!(owners));
        }
        if existing.config() != self.config.as_deref() {
            patch.insert("spec".to_owned(), json!({"config": self.config}));
        }
        if patch.is_empty() && metadata.is_empty() {
            return DefinitionDiff::Same;
        }
        // The resourceVersion makes the patch fail after a concurrent change. The controller's next pass
        // compares again.
        metadata.insert("resourceVersion".to_owned(), json!(existing.resource_version()));
        patch.insert("metadata".to_owned(), metadata.into());
        DefinitionDiff::Patch(patch.into())
    }
}

/// Whether Ferroband wrote the NetworkAttachmentDefinition for a SriovIBNetwork. Only such a definition may be deleted.
pub fn is_generated(definition: &NetworkAttachmentDefinition) -> bool {
    let own = format!("{}/{}", definition.namespace().unwrap_or_default(), definition.name_any());
    definition.annotations().get(GENERATED) == Some(&own)
}

/// Returns the annotations that are copied from a source object to its NetworkAttachmentDefinition: all
/// except `LAST_APPLIED`.
pub fn copied_annotations(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let copied = annotations.iter().filter(|(key, _)| key.as_str() != LAST_APPLIED);
    copied.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> NetworkDefinition {
        NetworkDefinition {
            namespace: "kube-system".into(),
            name: "ib".into(),
            annotations: [(RESOURCE_NAME.to_owned(), "spidernet.io/r".to_owned())].into(),
            controller: Some(OwnerReference {
                kind: "SpiderMultusConfig".into(),
                name: "ib".into(),
                uid: "u1".into(),
                controller: Some(true),
                ..OwnerReference::default()
            }),
            config: Some("{}".into()),
        }
    }

    #[test]
    fn an_equal_definition_with_additional_annotations_is_not_changed() {
        let desired = definition();
        let mut existing = desired.to_object();
        assert_eq!(desired.diff(&existing), DefinitionDiff::Same);
        existing.annotations_mut().insert("someone/else".into(), "x".into());
        assert_eq!(desired.diff(&existing), DefinitionDiff::Same);
    }

    #[test]
    fn only_differences_are_patched() {
        let desired = definition();
        let mut existing = desired.to_object();
        existing.metadata.resource_version = Some("7".into());
        existing.spec.spec.config = Some("{\"edited\":1}".into());
        existing.annotations_mut().insert("cni.spidernet.io/rdma-resource-inject".into(), "old".into());
        existing.annotations_mut().insert("someone/else".into(), "x".into());
        let patch = json!({
            "metadata": {"annotations": {"cni.spidernet.io/rdma-resource-inject": null}, "resourceVersion": "7"},
            "spec": {"config": "{}"},
        });
        assert_eq!(desired.diff(&existing), DefinitionDiff::Patch(patch));
        let without_config = NetworkDefinition { config: None, ..desired.clone() };
        let DefinitionDiff::Patch(patch) = without_config.diff(&desired.to_object()) else {
            panic!("no difference found")
        };
        assert_eq!(patch["spec"], json!({"config": null}));
    }

    #[test]
    fn a_definition_without_an_owner_is_adopted_and_one_of_another_owner_is_not() {
        let desired = definition();
        let mut existing = desired.to_object();
        existing.metadata.owner_references = None;
        let DefinitionDiff::Patch(patch) = desired.diff(&existing) else { panic!("no difference found") };
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u1");
        let mut other = desired.to_object();
        other.owner_references_mut()[0].uid = "u2".into();
        assert_eq!(desired.diff(&other), DefinitionDiff::Foreign("SpiderMultusConfig ib".into()));
        existing
            .annotations_mut()
            .insert(OWNER_REF.into(), "SriovIBNetwork.sriovnetwork.openshift.io/a/b".into());
        assert!(matches!(desired.diff(&existing), DefinitionDiff::Foreign(_)));
    }
}
