//! `whereabouts.cni.cncf.io/v1alpha1`: the allocation records of Whereabouts. Ferroband copies its allocations to them.

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

/// The owner of an assigned address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpAllocation {
    /// ID of the pod's sandbox (`CNI_CONTAINERID`).
    pub id: String,
    /// Pod that owns the address, `<namespace>/<name>`.
    pub podref: String,
    /// Interface name in the pod. Older Whereabouts releases do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
}

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
