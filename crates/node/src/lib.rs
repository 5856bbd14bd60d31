//! The node daemon: discovers the node's hardware, advertises devices to the kubelet, and plans pod attachments.
//!
//! Each directory is one stage, and `run` connects the stages. Communication with the kubelet and the API
//! server and the handling of file events are async; access to the kernel and the disk runs on separate
//! threads.
//!
//! ```text
//!  sysfs, dev ──discover──▶ Inventory ┐
//!  files ───────────────────▶ pools ──┴─advertise──▶ kubelet ──Allocate──▶ allocate: device files
//!  SriovNetworkNodeState ──configure──▶ virtual functions and their pools
//!
//!  API server ──caches──▶ pods, networks, address blocks
//!                              │
//!  ferroband-cni ──serve──▶ resolve ──▶ build ──▶ serve: executes the plan ──▶ observe: status, events
//!                                                   ├──▶ address (blocks, by compare-and-swap)
//!        pending_release, evidence ─────────────────┴──▶ partition (NodePartitions)
//!          releases that DEL could not deliver, or that nobody requested
//!
//!  opensm: a subnet manager, on labelled nodes
//!  install: wraps the cluster's default network with ferroband-cni, once an ADD can succeed
//! ```

mod device_plugin;
mod dir_watch;
mod error;
#[cfg(test)]
use ferroband_testbed::fake_api;
mod hardware;
mod node_labels;
mod pending_files;
mod run;
mod settings;
mod state_dirs;

use ferroband_daemon::api_call;

/// Field manager of the objects that the daemon writes.
const FIELD_MANAGER: &str = "ferroband-node";

pub mod address;
pub mod advertise;
pub mod allocate;
pub mod build;
pub mod caches;
pub mod configure;
pub mod discover;
pub mod etcd_restore;
pub mod evidence;
pub mod install;
pub mod kubelet;
pub mod observe;
pub mod opensm;
pub mod partition;
pub mod pending_release;
pub mod pools;
pub mod readiness;
pub mod resolve;
pub mod serve;

pub use device_plugin::{DevicePluginConfig, run_device_plugin};
pub use error::{Error, error_chain};
pub use hardware::{find_profile, open_hardware};
pub use resolve::{NetworkAccessPolicy, PluginPolicy};
pub use run::run;
pub use settings::{NodeSettings, SimulationSettings};
