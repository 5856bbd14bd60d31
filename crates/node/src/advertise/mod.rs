//! Stage advertise: advertises the devices of this node to the kubelet.
//!
//! ```text
//! Inventory ┐
//! pools     ┴─▶ DeviceState ──▶ ResourcePlugin per resource (gRPC on a socket) ◀── ListAndWatch, Allocate ── kubelet
//!                                  └── registration: Register at kubelet.sock, again after its restart,
//!                                      or a socket in the directory of the kubelet's plugin watcher
//! ```

mod checkpoint;
mod device_plugins;
mod device_state;
mod h2_authority;
mod plugin_server;
mod port_health;
mod preferred_allocation;
mod registration;
mod resource_plugin;
mod terminating;
#[cfg(test)]
mod tests;

pub use device_plugins::run_device_plugins;
pub use device_state::{AllocatedDevices, DeviceState, run_device_state};
pub use registration::{KubeletDir, RegistrationMode};

pub use crate::kubelet::device_plugin_api as wire;

/// The plugin watcher's API, from `proto/pluginregistration.proto`.
#[allow(missing_docs, reason = "documented in the proto file")]
pub mod registry {
    tonic::include_proto!("pluginregistration");
}
