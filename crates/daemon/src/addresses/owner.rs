//! Pod owners that affect address assignment.

use kube::core::ObjectMeta;

/// Whether a StatefulSet controls the pod. The addresses of such a pod stay reserved for its name.
pub fn is_stateful(pod: &ObjectMeta) -> bool {
    let mut owners = pod.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "StatefulSet" && owner.controller == Some(true))
}
