//! The CNI socket, on which `ferroband-cni` talks to the daemon.
//!
//! ```text
//! CniSocket ── accept thread ──▶ one thread per call ── connection ──▶ CniHandler (plans, addresses, releases, status)
//!   mode 0600, root only, a limited number of calls
//! ```
//!
//! Each call runs on its own thread, because access to network interfaces blocks and must not run on the
//! async runtime.

mod conversation;
mod decider;
mod find;
mod running;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use decider::CniHandler;
pub use running::CallLimiter;
pub use socket::CniSocket;
