//! NVIDIA's UFM, over its REST interface.
//!
//! ```text
//! Settings ──▶ tls (pinned, or the system's trust) ──▶ Client (deadlines, credentials) ──▶ Ufm (partitions)
//! ```
//!
//! An answer of 200 says that UFM knows, not that a port's table shows it; the nodes look at those.

mod client;
mod partitions;
mod response;
mod settings;
mod tls;

pub use partitions::Ufm;
pub use settings::{UfmClientSettings, UfmLogin};
