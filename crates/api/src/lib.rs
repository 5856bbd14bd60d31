//! What users write and what they read back: custom resources, annotations, network definitions.
//!
//! ```text
//!  pod annotation `networks` ──Selection──▶ which NetworkAttachmentDefinition, as which interface
//!                                              └──NetworkConfig──▶ its plugins, in order
//!  CNI results ──StatusEntry──▶ pod annotation `network-status`
//!
//!  k8s.cni.cncf.io/v1                 cncf::NetworkAttachmentDefinition
//!  whereabouts.cni.cncf.io/v1alpha1   whereabouts::{IPPool, OverlappingRangeIPReservation}
//!  spiderpool.spidernet.io/v2beta1    spiderpool::{SpiderIPPool, SpiderMultusConfig, …}
//!  sriovnetwork.openshift.io/v1       sriov::{SriovNetworkNodePolicy, SriovIBNetwork, …}
//!  ferroband.io/v1alpha1              ferroband::AddressBlock          the only kind that is ours
//! ```
//!
//! The kinds of other systems are *supersets* of theirs: every field they have, in every spelling that documents
//! use, plus what we add; and whatever else stands in an object is kept. Values they enumerate are plain strings
//! here: an object that a newer release of theirs wrote must still be readable.

#![warn(missing_docs)]

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
