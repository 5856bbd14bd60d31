//! Who the pods of this node belong to, for metrics.

use kube::core::ObjectMeta;

/// A pod's UID, and what made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOwner {
    /// The pod's UID.
    pub uid: String,
    /// The API version, kind and name of its controller.
    pub controller: Option<(String, String, String)>,
}

impl PodOwner {
    /// What `metadata` says.
    pub fn from_metadata(metadata: ObjectMeta) -> Self {
        let owners = metadata.owner_references.unwrap_or_default();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        Self {
            uid: metadata.uid.unwrap_or_default(),
            controller: controller.map(|owner| (owner.api_version, owner.kind, owner.name)),
        }
    }
}
