//! Partitions on the node: who of its pods shall be in which, and waiting until it is so.
//!
//! ```text
//! ADD: begin ── asked ──▶ Book ──writer──▶ NodePartitions (this node's object) ──▶ cluster daemon ──▶ subnet manager
//!      await_member ◀── the port's own P_Key table (sysfs) ◀──────────────────────────────────────────┘
//! DEL: end ──▶ Book ──▶ …
//!
//! a GUID that a pod asks for: Guids ── Claims ──▶ GuidGranule, until the sandbox is gone and the function has its own again
//! ```
//!
//! The port's table decides. Where the host cannot see it, because the device is in the pod's namespace, the cluster
//! daemon's word that the subnet manager has it does.

mod asked;
mod book;
mod claims;
mod desk;
mod guids;
mod holdings;
mod object;
mod ports;

pub use asked::{Asked, Port};
pub use claims::Claims;
pub use desk::Partitions;
pub use guids::Guids;
pub use object::Object;
