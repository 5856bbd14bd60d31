//! Stage observe: what happened, told where people look for it: on the pod, and at `/metrics`.

pub mod condition;
mod event_dedup;
mod events;
pub mod metrics;
mod network_status;

pub use events::PodEventRecorder;
pub use network_status::NetworkStatusWriter;
