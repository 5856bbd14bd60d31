//! Checks for running components of projects that Ferroband replaces.

use super::finding::{DoctorFinding, first_and_more};
use crate::status::ClusterObjects;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Each row is a substring of an image name, and the project that publishes images with such names.
const SYSTEMS: [(&str, &str); 10] = [
    ("multus", "Multus"),
    ("whereabouts", "Whereabouts"),
    ("spiderpool", "Spiderpool"),
    ("sriov-network-operator", "the SR-IOV operator"),
    ("sriov-network-config-daemon", "the SR-IOV operator"),
    ("sriov-network-device-plugin", "the SR-IOV device plugin"),
    ("k8s-rdma-shared", "the shared RDMA device plugin"),
    ("k8s-rdma-device", "the JARVICE RDMA device plugin"),
    ("ib-kubernetes", "ib-kubernetes"),
    ("ib-sriov-cni", "ib-sriov-cni"),
];

/// Reports every replaced project that still has a pod. The image of a pod shows to which project it belongs.
pub fn check(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let mut running: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in &objects.pods {
        let images = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|c| c.image.as_deref());
        for image in images {
            // Skip the registry's host name, which may contain the name of a project by chance.
            let path = image.split_once('/').map_or(image, |(_, path)| path);
            if let Some((_, system)) = SYSTEMS.iter().find(|(word, _)| path.contains(word)) {
                let pods = running.entry(system).or_default();
                pods.push(format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()));
            }
        }
    }
    let finding = |(system, pods): (&str, Vec<String>)| {
        let observed = format!("{system} is running: {}", first_and_more(&pods));
        DoctorFinding::note("replaced components", observed, "remove it in the order of docs/moving-over.md")
    };
    running.into_iter().map(finding).collect()
}
