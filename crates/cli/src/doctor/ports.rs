//! Checks the health of the nodes' devices. A device is unhealthy while its port has no link.

use super::finding::DoctorFinding;
use crate::status::{ClusterObjects, StatusReport};
use ferroband_api::annotation::RESOURCE_NAME;
use kube::ResourceExt;

/// Resource that Ferroband advertises without any configuration.
const DEFAULT_RESOURCE: &str = "jarvice.com/rdma";
const LINK_REMEDY: &str = "check the cables, the switch and the subnet manager; `ferroband doctor node` on that node \
     shows the state of each port; a device that a policy no longer offers is unhealthy until its pod ends";

/// Reports nodes with unhealthy devices. The kubelet counts them in the node's capacity, but not in what is
/// allocatable.
pub fn check(objects: &ClusterObjects, report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for node in &report.nodes {
        for (resource, amount) in node.resources.iter().filter(|(_, one)| one.allocatable < one.capacity) {
            let check = format!("devices of node {}", node.name);
            let unhealthy = amount.capacity - amount.allocatable;
            let observed = format!("{resource}: {unhealthy} of {} devices are unhealthy", amount.capacity);
            // A device that two resources offer is unhealthy under one of them while a pod uses it under the other.
            let others = node.resources.iter().filter(|(other, _)| *other != resource);
            let used_elsewhere: u64 = others.map(|(_, amount)| amount.used).sum();
            findings.push(if !is_own(objects, resource) {
                DoctorFinding::note(check, observed, "check the device plugin that advertises it")
            } else if unhealthy <= used_elsewhere {
                DoctorFinding::note(
                    check,
                    observed,
                    "no action needed if pods use them under another resource name",
                )
            } else {
                DoctorFinding::problem(check, observed, LINK_REMEDY)
            });
        }
    }
    findings
}

/// Whether a network or a policy uses the resource. Another device plugin may advertise any other resource.
fn is_own(objects: &ClusterObjects, resource: &str) -> bool {
    let name = resource.split_once('/').map_or(resource, |(_, name)| name);
    let groups =
        objects.states.iter().flat_map(|state| &state.spec.interfaces).flat_map(|one| &one.vf_groups);
    let mut networks = objects.networks.iter();
    resource == DEFAULT_RESOURCE
        || networks
            .any(|network| network.annotations().get(RESOURCE_NAME).is_some_and(|other| other == resource))
        || groups.into_iter().any(|group| group.resource_name.as_deref() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::super::finding::DoctorVerdict::{Note, Problem};
    use super::*;
    use serde_json::json;

    #[test]
    fn devices_without_a_link_are_a_problem() {
        let node = json!({"metadata": {"name": "n1"}, "status": {
            "capacity": {"spidernet.io/ib": "12", "spidernet.io/other": "4", "jarvice.com/rdma": "1", "x.com/gpu": "8"},
            "allocatable": {"spidernet.io/ib": "0", "spidernet.io/other": "4", "jarvice.com/rdma": "1", "x.com/gpu": "7"}}});
        let state = json!({"metadata": {"name": "n1"}, "spec": {"interfaces": [
            {"pciAddress": "0000:3b:00.0", "vfGroups": [{"resourceName": "ib"}]}]}});
        let objects = ClusterObjects {
            nodes: vec![serde_json::from_value(node).unwrap()],
            states: vec![serde_json::from_value(state).unwrap()],
            ..ClusterObjects::default()
        };
        let found = check(&objects, &StatusReport::from_objects(&objects));
        let found: Vec<_> =
            found.iter().map(|finding| (finding.verdict, finding.observed.as_str())).collect();
        assert_eq!(
            found,
            [
                (Problem, "spidernet.io/ib: 12 of 12 devices are unhealthy"),
                (Note, "x.com/gpu: 1 of 8 devices are unhealthy")
            ]
        );
    }

    #[test]
    fn device_in_use_under_another_resource_is_only_a_note() {
        let node = json!({"metadata": {"name": "n1"}, "status": {"capacity": {"jarvice.com/rdma": "4", "x.com/vf": "4"},
            "allocatable": {"jarvice.com/rdma": "3", "x.com/vf": "4"}}});
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "resources": {"limits": {"x.com/vf": "1"}}}]}});
        let mut objects = ClusterObjects {
            nodes: vec![serde_json::from_value(node).unwrap()],
            pods: vec![serde_json::from_value(pod).unwrap()],
            ..ClusterObjects::default()
        };
        let verdict =
            |objects: &ClusterObjects| check(objects, &StatusReport::from_objects(objects))[0].verdict;
        assert_eq!(verdict(&objects), Note);
        objects.pods.clear();
        assert_eq!(verdict(&objects), Problem);
    }

    #[test]
    fn resource_of_a_network_is_ferrobands_own() {
        let network = json!({"metadata": {"name": "a", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "x.com/vf"}},
            "spec": {"config": "{}"}});
        let objects = ClusterObjects {
            networks: vec![serde_json::from_value(network).unwrap()],
            ..ClusterObjects::default()
        };
        assert!(is_own(&objects, "x.com/vf") && is_own(&objects, "jarvice.com/rdma"));
        assert!(!is_own(&objects, "x.com/gpu"));
    }
}
