//! Reports to users: pod events, the `network-status` annotation, node conditions, and metrics.

mod condition;
mod event_dedup;
mod events;
pub mod metrics;
mod network_status;
mod pending_status;

pub use condition::NodeCondition;
pub use events::PodEventRecorder;
pub use network_status::NetworkStatusWriter;
pub use pending_status::write_pending_statuses;
