//! Runs opensm on nodes with the label `node-restriction.kubernetes.io/ferroband-subnet-manager`.
//!
//! ```text
//! SubnetManagerHost of this node ──controller──▶ OpensmSupervisor ─┬─▶ partitions.conf  validated, our section only
//!      ▲ status: written, signalled,                       │         ├─▶ opensm  priority 0; SIGHUP once all hosts
//!      └─ state, problem ◀─────────────────────────────────┘         │             have the file
//!                                                                     └─▶ sminfo  yields to a foreign master
//! ```
//!
//! The partitions file is the only persistent state. A running opensm is found by its command line, so it survives
//! daemon restarts and is never started twice. It is stopped when the node loses the label or Ferroband is
//! uninstalled.

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
