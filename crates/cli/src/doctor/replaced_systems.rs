//! Programs of the systems that Ferroband stands in for, still alive.

use super::finding::DoctorFinding;
use crate::status::ClusterObjects;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// What an image's name contains, the system it belongs to, and what its presence means.
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

/// Look at the images of all pods.
pub fn check(seen: &ClusterObjects) -> Vec<DoctorFinding> {
    let mut alive: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in &seen.pods {
        let images = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|c| c.image.as_deref());
        for image in images {
            // The registry's host says nothing about what runs.
            let path = image.split_once('/').map_or(image, |(_, path)| path);
            if let Some((_, system)) = SYSTEMS.iter().find(|(word, _)| path.contains(word)) {
                let pods = alive.entry(system).or_default();
                pods.push(format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()));
            }
        }
    }
    let finding = |(system, pods): (&str, Vec<String>)| {
        let first = pods.first().cloned().unwrap_or_default();
        let seen = match pods.len() {
            1 => format!("{system} runs: {first}"),
            count => format!("{system} runs: {first} and {} more", count - 1),
        };
        DoctorFinding::note(
            "replaced systems",
            seen,
            "see docs/moving-over.md for the order in which it is taken away",
        )
    };
    alive.into_iter().map(finding).collect()
}
