//! The cluster daemon: controllers that run once per cluster. It exchanges state with the node daemons only through API
//! objects and never connects to them.
//!
//! Two replicas run. The one that holds the lease is the leader and runs the controllers; the other waits. Each
//! controller has its own directory and works in passes: it reads the caches, computes the desired state, and
//! writes the difference. The next pass completes an interrupted one, so nothing is lost if the replica loses
//! the lease, crashes, or cannot reach the API server.
//!
//! ```text
//!  API server ──watch──▶ caches ──change──▶ reconcile ──▶ writes (server-side apply), conditions, events
//!                                              ▲ retried with backoff after a failure
//!  lease ── held? ──yes──▶ controllers: start all
//!               └──no───▶ wait
//!
//!  every replica: webhook, answering the API server from the network caches
//! ```

mod address;
mod controller_context;
mod controllers;
mod error;
mod etcd_restore;
mod last_events;
mod node_facts;
mod node_liveness;
mod object_writes;
mod run;
mod settings;

pub mod drain;
pub mod lease;
pub mod networks;
pub mod partition;
pub mod policies;
pub mod webhook;

pub use address::FullProjection;
pub use controller_context::ControllerContext;
pub use error::Error;
pub use run::run;
pub use settings::ClusterSettings;
