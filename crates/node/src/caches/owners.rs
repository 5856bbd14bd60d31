//! Owners of the pods of this node, for metrics.

use kube::core::ObjectMeta;

/// A pod's UID and controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOwner {
    pub uid: String,
    /// API version, kind and name of the controlling owner; `None` if the pod has none.
    pub controller: Option<(String, String, String)>,
}

impl PodOwner {
    pub fn from_metadata(metadata: ObjectMeta) -> Self {
        let owners = metadata.owner_references.unwrap_or_default();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        Self {
            uid: metadata.uid.unwrap_or_default(),
            controller: controller.map(|owner| (owner.api_version, owner.kind, owner.name)),
        }
    }
}
