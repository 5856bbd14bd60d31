//! A definition as it should be, beside the one that is there.

use ferroband_api::{annotation::RESOURCE_NAME, cncf::NetworkAttachmentDefinition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// On a definition made from a SriovIBNetwork: which one.
pub const OWNER_REF: &str = "sriovnetwork.openshift.io/owner-ref";
/// What kubectl keeps of the object it applied; of no use on another one.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations that came from the object, and go when they are gone there.
const COPIED_PREFIXES: [&str; 2] = ["multus.spidernet.io/", "cni.spidernet.io/"];

/// A NetworkAttachmentDefinition as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkDefinition {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its annotations; others may be there besides.
    pub annotations: BTreeMap<String, String>,
    /// The object that owns it, where both are in one namespace.
    pub controller: Option<OwnerReference>,
    /// The configuration; absent, it is a file on each node.
    pub config: Option<String>,
}

/// How the definition that is there stands to the one that should be.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionDiff {
    /// It is the same.
    Same,
    /// It is to be changed so (a JSON merge patch that holds only for what was seen).
    Patch(Value),
    /// It belongs to somebody else, who is named.
    Foreign(String),
}

impl NetworkDefinition {
    /// The object.
    pub fn to_object(&self) -> NetworkAttachmentDefinition {
        let mut object = NetworkAttachmentDefinition::new(&self.name, Default::default());
        object.metadata.namespace = Some(self.namespace.clone());
        object.metadata.annotations = Some(self.annotations.clone()).filter(|all| !all.is_empty());
        object.metadata.owner_references = self.controller.clone().map(|owner| vec![owner]);
        object.spec.spec.config = self.config.clone();
        object
    }

    /// How `there` stands to it. One that nobody owns becomes ours, as it does with the systems we replace: people
    /// write the object later than the definition.
    pub fn diff(&self, there: &NetworkAttachmentDefinition) -> DefinitionDiff {
        let uid = self.controller.as_ref().map(|owner| owner.uid.as_str());
        let controller = there.owner_references().iter().find(|owner| owner.controller == Some(true));
        if let Some(other) = controller.filter(|owner| Some(owner.uid.as_str()) != uid) {
            return DefinitionDiff::Foreign(format!("{} {}", other.kind, other.name));
        }
        let named = there.annotations().get(OWNER_REF);
        if let Some(other) = named.filter(|name| Some(*name) != self.annotations.get(OWNER_REF)) {
            return DefinitionDiff::Foreign(other.clone());
        }
        let mut annotations = Map::new();
        for (key, value) in &self.annotations {
            if there.annotations().get(key) != Some(value) {
                annotations.insert(key.clone(), json!(value));
            }
        }
        for key in there.annotations().keys() {
            let ours = key == RESOURCE_NAME || COPIED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            if ours && !self.annotations.contains_key(key) {
                annotations.insert(key.clone(), Value::Null);
            }
        }
        let mut patch = Map::new();
        let mut metadata = Map::new();
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into());
        }
        if let Some(owner) = self.controller.as_ref().filter(|_| controller.is_none()) {
            let mut owners = there.owner_references().to_vec();
            owners.retain(|other| other.uid != owner.uid);
            owners.push(owner.clone());
            metadata.insert("ownerReferences".to_owned(), json!(owners));
        }
        if there.config() != self.config.as_deref() {
            patch.insert("spec".to_owned(), json!({"config": self.config}));
        }
        if patch.is_empty() && metadata.is_empty() {
            return DefinitionDiff::Same;
        }
        // Whoever changes it meanwhile is looked at again.
        metadata.insert("resourceVersion".to_owned(), json!(there.resource_version()));
        patch.insert("metadata".to_owned(), metadata.into());
        DefinitionDiff::Patch(patch.into())
    }
}

/// The annotations of an object that its definition has too.
pub fn copied_annotations(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let kept = annotations.iter().filter(|(key, _)| key.as_str() != LAST_APPLIED);
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
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
    fn what_is_as_it_should_be_is_left_alone_whatever_else_is_on_it() {
        let wanted = definition();
        let mut there = wanted.to_object();
        assert_eq!(wanted.diff(&there), DefinitionDiff::Same);
        there.annotations_mut().insert("someone/else".into(), "x".into());
        assert_eq!(wanted.diff(&there), DefinitionDiff::Same);
    }

    #[test]
    fn only_what_differs_is_changed() {
        let wanted = definition();
        let mut there = wanted.to_object();
        there.metadata.resource_version = Some("7".into());
        there.spec.spec.config = Some("{\"edited\":1}".into());
        there.annotations_mut().insert("cni.spidernet.io/rdma-resource-inject".into(), "old".into());
        there.annotations_mut().insert("someone/else".into(), "x".into());
        let patch = json!({
            "metadata": {"annotations": {"cni.spidernet.io/rdma-resource-inject": null}, "resourceVersion": "7"},
            "spec": {"config": "{}"},
        });
        assert_eq!(wanted.diff(&there), DefinitionDiff::Patch(patch));
        let lone = NetworkDefinition { config: None, ..wanted.clone() };
        let DefinitionDiff::Patch(patch) = lone.diff(&wanted.to_object()) else { panic!("the same") };
        assert_eq!(patch["spec"], json!({"config": null}));
    }

    #[test]
    fn m09_one_that_nobody_owns_becomes_ours_and_one_of_another_owner_does_not() {
        let wanted = definition();
        let mut there = wanted.to_object();
        there.metadata.owner_references = None;
        let DefinitionDiff::Patch(patch) = wanted.diff(&there) else { panic!("the same") };
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u1");
        let mut other = wanted.to_object();
        other.owner_references_mut()[0].uid = "u2".into();
        assert_eq!(wanted.diff(&other), DefinitionDiff::Foreign("SpiderMultusConfig ib".into()));
        there
            .annotations_mut()
            .insert(OWNER_REF.into(), "SriovIBNetwork.sriovnetwork.openshift.io/a/b".into());
        assert!(matches!(wanted.diff(&there), DefinitionDiff::Foreign(_)));
    }
}
