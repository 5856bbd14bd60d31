//! The words of the trade, pure and without I/O.
//!
//! Every other crate speaks in these types instead of strings, so that a GUID written with colons in an
//! annotation, as `248a:0703:…` in sysfs and as a number in netlink is one thing, and a
//! P_Key never loses its membership bit on the way.
//!
//! ```text
//! PciAddress ─── is a device ───▶ ports: LinkLayer, Guid ─── is a member of ───▶ PKey
//!     │
//!     └── offered to pods as ──▶ ResourceName            PodRef ◀── who has it
//!
//! Fault: what is told to people when any of this goes wrong
//! ```

#![warn(missing_docs)]

mod error;
mod fault;
mod guid;
mod link_layer;
mod pci;
mod pkey;
mod pod;
mod resource;

pub use error::MalformedValue;
pub use fault::{Explanation, Fault, FaultCode};
pub use guid::Guid;
pub use link_layer::LinkLayer;
pub use pci::PciAddress;
pub use pkey::PKey;
pub use pod::PodRef;
pub use resource::ResourceName;
