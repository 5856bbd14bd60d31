//! Stage observe: what happened, told where people look for it: on the pod.

mod events;
mod status;
mod told;

pub use events::Events;
pub use status::Status;
