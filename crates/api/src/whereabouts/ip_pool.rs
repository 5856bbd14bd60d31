//! The kind IPPool.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The assigned addresses of one range.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "whereabouts.cni.cncf.io",
    version = "v1alpha1",
    kind = "IPPool",
    plural = "ippools",
    namespaced,
    derive = "PartialEq",
    doc = "The assigned addresses of one range."
)]
pub struct IPPoolSpec {
    /// The range in CIDR notation.
    pub range: String,
    /// Assigned addresses by their decimal offset from the first address of the range.
    pub allocations: BTreeMap<String, IpAllocation>,
}

/// An assigned address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpAllocation {
    /// Sandbox ID.
    pub id: String,
    /// The pod, `<namespace>/<name>`.
    pub podref: String,
    /// The interface in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
}
