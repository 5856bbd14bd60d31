//! Drain controller: evicts pods from a node before devices that they hold are changed, and only those pods.
//!
//! The node requests a drain and this controller reports its progress in the SR-IOV operator's annotations,
//! so that an external drainer can replace this controller. The node lists the affected pods, which it reads
//! from the kubelet's checkpoint, in its SriovNetworkNodeState.
//!
//! ```text
//!  node: desired-state      here: current-state
//!  Drain_Required ─────────▶ Idle ──budget of the pool?──▶ Draining ──evict holders──▶ DrainComplete
//!  Reboot_Required ────────▶   ''                            '' and cordon, evict all       ''
//!  Idle ───────────────────▶ Draining, DrainComplete ──uncordon if cordoned here──▶ Idle
//! ```
//!
//! A drain does not cordon the node: the affected devices are not advertised meanwhile, so no new pod can get them, and
//! pods that do not use them keep running.

mod controller;
mod evict;
mod step;

pub use controller::DrainController;
pub use step::{DrainStep, next_step};
