//! Stage advertise: the kubelet is told which devices this node has.
//!
//! ```text
//! Inventory ──▶ Resource ──▶ Plugin (gRPC on our socket) ◀── ListAndWatch, Allocate ── kubelet
//!                               └── keep_registered ── Register ──▶ kubelet.sock, again after its restart
//! ```

mod plugin;
mod register;
mod resource;
#[cfg(test)]
mod tests;

pub use register::keep_registered;
pub use resource::{Device, Resource};

/// The kubelet's interface, from `proto/deviceplugin.proto`.
pub(crate) mod wire {
    tonic::include_proto!("v1beta1");
}
