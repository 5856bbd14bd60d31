//! Draining: pods go from a node before what they hold is changed, and only those that hold it.
//!
//! The node says what it needs, this says how far it is, in the SR-IOV operator's annotations; so an operator's drainer can
//! do it in our place. Which pods have to go the node says in its state, from the kubelet's own notes.
//!
//! ```text
//!  node: desired-state      here: current-state
//!  Drain_Required ─────────▶ Idle ──budget of the pool?──▶ Draining ──evict holders──▶ DrainComplete
//!  Reboot_Required ────────▶   ''                            '' and cordon, evict all       ''
//!  Idle ───────────────────▶ Draining, DrainComplete ──uncordon what we cordoned──▶ Idle
//! ```
//!
//! A node is not made unschedulable for a drain: what changes is offered to nobody meanwhile, so no pod that needs it can
//! come, and pods that do not need it are left in peace.

mod controller;
mod evict;
mod step;

pub use controller::DrainController;
pub use step::{DrainStep, next_step};
