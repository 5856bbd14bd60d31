//! OverlappingRangeIPReservation (`whereabouts.cni.cncf.io/v1alpha1`): makes an address unique across ranges.

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
    /// Pod that owns the address, `<namespace>/<name>`.
    pub podref: String,
    /// Interface name in the pod. Older Whereabouts releases do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// ID of the pod's sandbox (`CNI_CONTAINERID`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containerid: Option<String>,
}
