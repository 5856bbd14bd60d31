//! Annotations on pods and NetworkAttachmentDefinitions.

mod ib_kubernetes;
mod link_address;
mod selection;
mod status;
mod validate;

pub use ib_kubernetes::{IbKubernetesMark, mark_configured};
pub use selection::{Bandwidth, NetworkSelection, PortMapping};
pub use status::{AttachedNetworkResult, Dns, StatusEntry, render_status};

/// On a pod: the networks it gets in addition to the default one.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// On a pod: the network that replaces the default one.
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// On a pod: the attached interfaces. Written by Ferroband.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// On a network: the resource whose devices it uses.
pub const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";
