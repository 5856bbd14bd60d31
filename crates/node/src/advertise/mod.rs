//! Stage advertise: the kubelet is told which devices this node has.
//!
//! ```text
//! Inventory ┐
//! Pools     ┴─▶ Board ──▶ Plugin, one for each resource (gRPC on a socket) ◀── ListAndWatch, Allocate ── kubelet
//!                            └── keep_registered: Register at kubelet.sock, again after its restart,
//!                                or a socket in the folder that the kubelet watches
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

pub use checkpoint::{HeldDevices, read_checkpoint};
pub use device_plugins::run_device_plugins;
pub use device_state::{AllocatedDevices, DeviceState, run_device_state};
pub use registration::{KubeletDir, RegistrationMode};

/// The kubelet's interface, from `proto/deviceplugin.proto`.
#[expect(missing_docs, reason = "its words are in the file")]
pub mod wire {
    tonic::include_proto!("v1beta1");
}

/// The plugin watcher's interface, from `proto/pluginregistration.proto`.
#[expect(missing_docs, reason = "its words are in the file")]
pub mod registry {
    tonic::include_proto!("pluginregistration");
}
