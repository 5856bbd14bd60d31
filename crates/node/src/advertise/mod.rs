//! Stage advertise: the kubelet is told which devices this node has.
//!
//! ```text
//! Inventory ┐
//! Pools     ┴─▶ Board ──▶ Plugin, one for each resource (gRPC on a socket) ◀── ListAndWatch, Allocate ── kubelet
//!                            └── keep_registered: Register at kubelet.sock, again after its restart,
//!                                or a socket in the folder that the kubelet watches
//! ```

mod authority;
mod board;
mod health;
mod held;
mod leaving;
mod offer;
mod plugin;
mod prefer;
mod register;
mod session;
#[cfg(test)]
mod tests;

pub use board::{Board, Given, keep_board};
pub use held::{Held, held};
pub use offer::keep_offered;
pub use register::{Kubelet, Way};

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
