//! Stage advertise, first half: the pools of this node and the devices of each pool.
//!
//! Configuration files are parsed into pools, and the devices of the inventory are assigned to the pools. Apart
//! from reading the files, this module does no I/O. It changes no device.
//!
//! ```text
//! configList (shared plugin)  ┐                        Inventory
//! resourceList (SR-IOV plugin)├─parse─▶ DevicePool ───────┴──▶ AdvertisedPool{pool, devices} per resource
//! JARVICE                     ┘   └── PoolProblem (file, field, cause) ──┘
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
mod unhealthy;

pub(crate) use advertised_pool::container_files;
pub use advertised_pool::{AdvertisedDevice, AdvertisedPool, build_advertised_pools};
pub use config_files::{PoolConfig, PoolSources, watch_pool_config};
pub use parse::{ParsedPoolFile, PoolDefaults, parse_pool_file};
pub use pf_vf_range::PfVfRange;
pub use pool::{DevicePool, DevicePoolKind, FunctionPool};
pub use problem::PoolProblem;
pub use selector::DeviceSelector;
