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

/// Parses the bytes as every answer of UFM that is more than a status. Fuzz tests call this: an answer of any content must
/// not end the daemon.
#[doc(hidden)]
pub fn parse_anything(body: &[u8]) -> Option<(crate::FabricReport, Vec<String>)> {
    let body: serde_json::Map<_, _> = serde_json::from_slice(body).ok()?;
    Some((response::parse_partitions(&body), response::default_secrets(&body)))
}
