//! Stage advertise, first half: which resources this node offers, and which device is whose.
//!
//! Pure: files become pools, pools and an inventory become shares. Nothing here touches a device.
//!
//! ```text
//! config.json (shared plugin) ┐                        Inventory
//! resourceList (SR-IOV plugin)├──read──▶ Pools ──share──▶ Share{resource, units} for each resource
//! JARVICE                     ┘   └─ Problem (file, field, cause) ─┘
//! ```

mod advertised_pool;
mod config_files;
#[cfg(test)]
pub(crate) mod fixture;
mod json_fields;
mod parse;
mod pf_vf_range;
mod pool;
mod problem;
mod selector;
mod shared_plugin;
mod sriov_plugin;
#[cfg(test)]
mod tests;

pub(crate) use advertised_pool::container_files;
pub use advertised_pool::{AdvertisedDevice, AdvertisedPool, build_advertised_pools};
pub use config_files::{PoolConfig, PoolSources, watch_pool_config};
pub use parse::{ParsedPoolFile, PoolDefaults, parse_pool_file};
pub use pf_vf_range::PfVfRange;
pub use pool::{DevicePool, DevicePoolKind, FunctionPool};
pub use problem::PoolProblem;
pub use selector::DeviceSelector;
