//! The connection between `ferroband-cni` and the node daemon: socket, messages and the plan.

pub mod message;
pub(crate) mod node_client;
pub mod plan;
pub mod socket;

pub use node_client::{daemon_mark, socket_path};
