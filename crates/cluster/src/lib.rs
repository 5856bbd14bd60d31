//! The cluster daemon: what is decided once for all nodes. It meets the node daemons in objects of the API server and
//! never speaks to them.
//!
//! Two replicas run; one holds the lease and does the leader's work, the other waits. Every piece of that work has a
//! folder of its own and one shape: *look at the caches, compute what should be, write what differs*. A pass that is
//! cut short anywhere is made good by the next one, so losing the lease, the process or the API server loses nothing.
//!
//! ```text
//!  API server ──watched──▶ caches ──changed──▶ work: pass ──▶ writes (server-side apply), conditions, events
//!                             │                  ▲ again on failure, with longer and longer pauses
//!  lease ── held? ──yes──▶ lead: every work
//!               └──no───▶ wait
//!
//!  every replica: webhook, answering the API server from the caches of the networks
//! ```

mod address;
mod error;
mod lead;
mod run;
mod settings;
mod watched;
mod work;

pub mod drain;
pub mod lease;
pub mod networks;
pub mod partition;
pub mod policies;
pub mod webhook;

pub use error::Error;
pub use run::run;
pub use settings::ClusterSettings;
pub use watched::{ReduceFn, Reflector};
pub use work::{Controller, ControllerContext, Trigger, run_controller};
