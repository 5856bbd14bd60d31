//! The CNI socket, on which `ferroband-cni` talks to the daemon.
//!
//! ```text
//! CniSocket ── accept thread ──▶ one thread per call
//!   mode 0600, root only           │
//!                                  ├─ ADD ──▶ resolve ──▶ build ──▶ execute (AddSession), while the plugin works
//!                                  └─ others ──▶ CniHandler: addresses of one interface, release, status
//! ```
//!
//! Each call runs on its own thread, because access to network interfaces blocks and must not run on the
//! async runtime.

mod device_access;
mod duplicate_detection;
mod execute;
mod handler;
mod socket;
#[cfg(test)]
mod tests;

pub use handler::CniHandler;
pub use socket::CniSocket;
