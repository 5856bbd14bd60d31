//! opensm on a node that the administrator chose (label `ferroband.io/subnet-manager`).
//!
//! ```text
//! SubnetManagerHost (this node's) ──Keeper──▶ Supervisor ──▶ partitions.conf   checked, whole, ours between the marks
//!      ▲ status: written, signalled,               │  ├─────▶ opensm            one, at priority 0; SIGHUP once all hosts have the file
//!      └─ state, problem ◀─────────────────────────┘  └─────▶ sminfo            who is master? a stranger's is yielded to
//! ```
//!
//! Nothing is remembered but the file: a running opensm is found again by what it was started with, so it outlives this daemon
//! and is not started twice, whenever either is killed. It is ended when the node is not chosen any more, or is left.

mod controller;
mod hang_detector;
mod port_select;
mod process;
mod process_handle;
mod program;
mod sm_master;
mod supervisor;

pub use controller::run_opensm_controller;
pub use port_select::{SmPort, select_port};
pub use program::OpensmProgram;
pub use supervisor::{DesiredOpensm, OpensmSupervisor};
