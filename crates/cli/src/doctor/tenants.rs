//! Checks the settings about tenants.

use super::finding::DoctorFinding;
use crate::status::ClusterObjects;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Recommends to refuse P_Keys that no Partition object lists, as soon as such objects exist: until then a tenant can
/// invent a P_Key, and use one that a Partition will list later.
pub fn check(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let mut daemons = objects.pods.iter().filter(|pod| is_cluster_daemon(pod)).peekable();
    if objects.partitions.is_empty() || daemons.peek().is_none() || daemons.all(refuses_unlisted) {
        return Vec::new();
    }
    vec![DoctorFinding::note(
        "unlisted partitions",
        "Partition objects exist, but P_Keys that none of them lists are open to every namespace",
        "set the Helm value partitions.unlisted to refuse (`--unlisted-partitions=refuse` for both daemons)",
    )]
}

fn is_cluster_daemon(pod: &Pod) -> bool {
    let is = |label: &str, value: &str| pod.labels().get(label).is_some_and(|found| found == value);
    is("app.kubernetes.io/name", "ferroband") && is("app.kubernetes.io/component", "cluster")
}

fn refuses_unlisted(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.into_iter().any(|container| {
        let arguments = container.args.iter().flatten();
        let mut variables = container.env.iter().flatten();
        arguments.into_iter().any(|argument| argument == "--unlisted-partitions=refuse")
            || variables.any(|variable| {
                variable.name == "FERROBAND_UNLISTED_PARTITIONS"
                    && variable.value.as_deref() == Some("refuse")
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn findings(partitions: &[Value], arguments: &[&str]) -> usize {
        let pod = json!({
            "metadata": {"name": "c", "labels": {
                "app.kubernetes.io/name": "ferroband", "app.kubernetes.io/component": "cluster"}},
            "spec": {"containers": [{"name": "cluster", "args": arguments}]},
        });
        let partitions = partitions.iter().map(|one| serde_json::from_value(one.clone()).unwrap()).collect();
        let pods = vec![serde_json::from_value(pod).unwrap()];
        check(&ClusterObjects { pods, partitions, ..ClusterObjects::default() }).len()
    }

    #[test]
    fn refusing_unlisted_partitions_is_recommended_once_a_partition_exists() {
        let partition = json!({"metadata": {"name": "five"}, "spec": {"pkey": 5, "namespaces": ["red"]}});
        assert_eq!(findings(&[], &["cluster"]), 0);
        assert_eq!(findings(std::slice::from_ref(&partition), &["cluster"]), 1);
        assert_eq!(findings(&[partition], &["cluster", "--unlisted-partitions=refuse"]), 0);
    }
}
