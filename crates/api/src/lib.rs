//! The user-facing API: custom resources, annotations and network configurations.
//!
//! ```text
//!  pod annotation `networks` ──NetworkSelection──▶ which NetworkAttachmentDefinition, as which interface
//!                                              └──NetworkConfig──▶ its plugins, in order
//!  CNI results ──StatusEntry──▶ pod annotation `network-status`
//!
//!  k8s.cni.cncf.io/v1                 cncf::NetworkAttachmentDefinition
//!  whereabouts.cni.cncf.io/v1alpha1   whereabouts::{IPPool, OverlappingRangeIPReservation}
//!  spiderpool.spidernet.io/v2beta1    spiderpool::{SpiderIPPool, SpiderMultusConfig, …}
//!  sriovnetwork.openshift.io/v1       sriov::{SriovNetworkNodePolicy, SriovIBNetwork, …}
//!  ferroband.io/v1alpha1              ferroband::{AddressBlock, Partition, …}
//! ```
//!
//! The types of other projects' kinds are *supersets* of the upstream types: every upstream field, in every spelling
//! found in documentation, plus Ferroband's extensions. Unknown fields are preserved. Upstream enums are plain strings
//! here, so that objects written by newer upstream releases can still be read.

#![warn(missing_docs)]
#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

mod crds;
mod error;
mod pkey_field;

pub mod annotation;
pub mod cncf;
pub mod ferroband;
pub mod spiderpool;
pub mod sriov;
pub mod whereabouts;

pub use crds::{CrdFile, all_crds, render_crds};
pub use error::Error;
pub(crate) use pkey_field::{PKEY_MESSAGE, PKEY_RULE};
pub use pkey_field::{PKeyField, parse_pkey_field};
