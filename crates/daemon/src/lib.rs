//! What the node daemon and the cluster daemon are both made of. They never see each other; they meet in objects of
//! the API server, and both have to live with one that comes and goes.
//!
//! ```text
//!  API server ──watching::follow──▶ watching::Cache ──▶ whoever decides     for ever, whatever becomes of the server
//!             ◀──call::bounded───── writes                                 an answer, a refusal, or "unknown" in time
//!
//!  addresses: granules and pools as objects; condition: what a status says, and since when
//!  tasks::Tasks: what runs as long as the daemon; stop: SIGTERM and SIGINT
//! ```

mod client;
mod condition;
mod error_chain;
mod shutdown;

pub mod addresses;
pub mod api_call;
pub mod tasks;
pub mod watch_cache;

pub use client::api_client;
pub use condition::condition;
pub use error_chain::error_chain;
pub use shutdown::shutdown_signal;
