//! Stage observe: what happened, told where people look for it: on the pod, and at `/metrics`.

pub mod condition;
mod events;
pub mod metrics;
mod status;
mod told;

pub use events::Events;
pub use status::Status;
