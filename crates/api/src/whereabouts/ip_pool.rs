//! The addresses of one range that are assigned.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The addresses of one range that are assigned.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "whereabouts.cni.cncf.io",
    version = "v1alpha1",
    kind = "IPPool",
    plural = "ippools",
    namespaced,
    derive = "PartialEq",
    doc = "The addresses of one range that are assigned."
)]
pub struct IPPoolSpec {
    /// The range, a subnet.
    pub range: String,
    /// The assigned addresses by their decimal offset from the first address of the range.
    pub allocations: BTreeMap<String, IpAllocation>,
}

/// Who has an address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpAllocation {
    /// The sandbox.
    pub id: String,
    /// The pod, `<namespace>/<name>`.
    pub podref: String,
    /// The interface in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
}
