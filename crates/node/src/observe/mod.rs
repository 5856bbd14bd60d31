//! Reports to users: pod events, the `network-status` annotation, the node condition, and metrics.

pub mod condition;
mod event_dedup;
mod events;
pub mod metrics;
mod network_status;

pub use events::PodEventRecorder;
pub use network_status::NetworkStatusWriter;
