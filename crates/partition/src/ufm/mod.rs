//! NVIDIA UFM, through its REST API.
//!
//! ```text
//! UfmClientSettings ──▶ tls (pinned or system roots) ──▶ UfmClient (deadlines, credentials) ──▶ Ufm (partitions)
//! ```
//!
//! Status 200 means that UFM stored the change, not that a port's P_Key table contains it. The nodes check the tables.

mod client;
mod list;
mod partitions;
mod response;
mod settings;
mod tls;

pub use partitions::Ufm;
pub use settings::{UfmClientSettings, UfmLogin};
