//! The kind OverlappingRangeIPReservation.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One assigned address, unique across ranges; the object's name is the address.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "whereabouts.cni.cncf.io",
    version = "v1alpha1",
    kind = "OverlappingRangeIPReservation",
    plural = "overlappingrangeipreservations",
    namespaced,
    derive = "PartialEq",
    doc = "One assigned address, unique across ranges; the object's name is the address."
)]
pub struct OverlappingRangeIPReservationSpec {
    /// The pod, `<namespace>/<name>`.
    pub podref: String,
    /// The interface in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// Sandbox ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containerid: Option<String>,
}
