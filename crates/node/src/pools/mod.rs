//! Stage advertise, first half: which resources this node offers, and which device is whose.
//!
//! Pure: files become pools, pools and an inventory become shares. Nothing here touches a device.
//!
//! ```text
//! config.json (shared plugin) ┐                        Inventory
//! resourceList (SR-IOV plugin)├──read──▶ Pools ──share──▶ Share{resource, units} for each resource
//! JARVICE                     ┘   └─ Problem (file, field, cause) ─┘
//! ```

mod fields;
#[cfg(test)]
pub(crate) mod fixture;
mod folder;
mod pool;
mod problem;
mod range;
mod read;
mod select;
mod share;
mod shared;
mod sriov;
#[cfg(test)]
mod tests;

pub use folder::{Configured, Sources, keep_read};
pub use pool::{Functions, Kind, Pool};
pub use problem::Problem;
pub use range::Ranged;
pub use read::{Defaults, Read, read};
pub use select::Selector;
pub(crate) use share::wanted;
pub use share::{Share, Unit, share};
