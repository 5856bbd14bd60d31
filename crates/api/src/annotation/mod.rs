//! Annotations on pods and NetworkAttachmentDefinitions.

mod ib_kubernetes;
mod selection;
mod status;
mod validate;

pub use ib_kubernetes::{IbKubernetesMark, mark_configured};
pub use selection::{Bandwidth, NetworkSelection, PortMapping};
pub use status::{AttachedNetworkResult, Dns, StatusEntry, render_status};

/// Pod annotation: the networks that the pod gets in addition to the default network.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Pod annotation: the network that replaces the cluster's default network.
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// Pod annotation: the attached interfaces and their addresses. Written by Ferroband.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// NetworkAttachmentDefinition annotation: the device plugin resource whose devices the network uses.
pub const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";
