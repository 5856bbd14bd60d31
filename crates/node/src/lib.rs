//! The node daemon: it knows the node's hardware, tells the kubelet, and decides what every pod gets.
//!
//! The folders are the stages of a pod's way; `run` joins them. Everything async is at the edges (kubelet, API
//! server, file events); what touches the kernel or the disk runs on threads of its own.
//!
//! ```text
//!  sysfs, dev ──discover──▶ Inventory ┐
//!  files ───────────────────▶ pools ──┴─advertise──▶ kubelet ──Allocate──▶ allocate: device files
//!  node state ──configure──▶ virtual functions, and pools of them
//!
//!  API server ──caches──▶ pods, networks, granules
//!                              │
//!  ferroband-cni ──serve──▶ plan ──▶ address (granules by compare-and-swap) ──▶ observe: status, events
//!                   owed ──────────────┘   releases that came while this daemon was away
//!
//!  opensm: a subnet manager, on nodes that are chosen to run one
//!  install: puts ferroband-cni in front of the cluster's default network, once all of this works
//! ```

mod device_plugin;
mod dir_watch;
mod error;
#[cfg(test)]
mod fake_api;
mod hardware;
mod node_labels;
mod run;
mod settings;
mod state_dirs;

use ferroband_daemon::api_call;

pub mod address;
pub mod advertise;
pub mod allocate;
pub mod caches;
pub mod configure;
pub mod discover;
pub mod install;
pub mod kubelet;
pub mod observe;
pub mod opensm;
pub mod partition;
pub mod pending_release;
pub mod plan;
pub mod pools;
pub mod readiness;
pub mod serve;

pub use device_plugin::{DevicePluginConfig, run_device_plugin};
pub use error::{Error, error_chain};
pub use hardware::{find_profile, open_hardware};
pub use plan::NetworkAccessPolicy;
pub use run::run;
pub use settings::{NodeSettings, SimulationSettings};
