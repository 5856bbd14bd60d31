//! The CNI socket: `ferroband-cni` asks, the daemon decides.
//!
//! ```text
//! Socket ── accepts on a thread of its own ──▶ one thread per call ── Conversation ──▶ Decider (plans, addresses,
//!   0600, root only, a bounded number of calls                                          releases, records)
//! ```
//!
//! The threads are plain ones: a call may look at interfaces, and that is blocking work which has no place on the
//! async runtime's threads.

mod conversation;
mod decider;
mod find;
mod membership;
mod running;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use decider::CniHandler;
pub use membership::{PartitionManager, UnmanagedPartitions};
pub use running::CallLimiter;
pub use socket::CniSocket;
