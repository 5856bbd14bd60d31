//! Basic types of the domain; no I/O.
//!
//! All crates use these types instead of strings: a GUID written with colons in an annotation, as `248a:0703:…` in
//! sysfs and as a number in netlink is one value, and a P_Key never loses its membership bit.
//!
//! ```text
//! PciAddress ─── is a device ───▶ ports: LinkLayer, Guid ─── is a member of ───▶ PKey
//!     │
//!     └── advertised to pods as ──▶ ResourceName            PodRef: a pod that uses it
//!
//! Fault: an error as shown to users
//! ConfigObject: a JSON object of a network configuration
//! ```

#![warn(missing_docs)]

pub mod config_object;
mod error;
mod fault;
mod fnv;
mod guid;
mod link_layer;
mod mac_prefix;
mod macros;
mod partition_request;
mod pci;
mod pkey;
mod pod;
mod requested_pkey;
mod resource;
mod vf_link_state;

pub use config_object::ConfigObject;
pub use error::MalformedValue;
pub use fault::{Explanation, Fault, FaultCode};
pub use fnv::fnv1a;
pub use guid::Guid;
pub use link_layer::LinkLayer;
pub use mac_prefix::MacPrefix;
pub use partition_request::{PodPartitionRequest, RequestedPort};
pub use pci::PciAddress;
pub use pkey::PKey;
pub use pod::PodRef;
pub use requested_pkey::{InvalidPKey, PKeyRange, RequestedPKey};
pub use resource::ResourceName;
pub use vf_link_state::VfLinkState;
