//! Finds the pods of Ferroband's daemons, for the daemon table of `ferroband status`.

use super::ClusterObjects;
use super::report::DaemonRow;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// One row for each pod that has the label `app.kubernetes.io/name=ferroband`, sorted by component, node and name.
pub fn daemon_rows(objects: &ClusterObjects) -> Vec<DaemonRow> {
    let mut daemons: Vec<_> = objects.pods.iter().filter_map(|pod| daemon(objects, pod)).collect();
    daemons.sort_by(|a, b| (&a.component, &a.node, &a.pod).cmp(&(&b.component, &b.node, &b.pod)));
    daemons
}

fn daemon(objects: &ClusterObjects, pod: &Pod) -> Option<DaemonRow> {
    let label = |name: &str| pod.labels().get(&format!("app.kubernetes.io/{name}")).map(String::as_str);
    if label("name") != Some("ferroband") {
        return None;
    }
    let namespace = pod.namespace().unwrap_or_default();
    let leads = objects.leases.iter().any(|lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        lease.namespace().as_deref() == Some(&namespace) && holder == Some(&pod.name_any())
    });
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    Some(DaemonRow {
        component: label("component")?.to_owned(),
        pod: pod.name_any(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        ready: is_ready(pod),
        leads,
        image: pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone()),
        restarts: containers.map(|container| container.restart_count).sum(),
        namespace,
    })
}

/// Whether the pod's condition Ready is true.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
