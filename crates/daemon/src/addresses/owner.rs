//! Who a pod belongs to, as far as its addresses depend on it.

use kube::core::ObjectMeta;

/// Whether the pod belongs to a StatefulSet, so that its name stands for it over re-creations.
pub fn is_stateful(pod: &ObjectMeta) -> bool {
    let mut owners = pod.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "StatefulSet" && owner.controller == Some(true))
}
