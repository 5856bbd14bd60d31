//! The CNI plugin: attaches pod sandboxes to networks and detaches them.
//!
//! The node daemon decides what to do (a [`plan::Plan`]). This crate does it, in a short-lived process without a
//! Kubernetes client, async runtime or any network access other than one Unix socket. The process may be killed at any
//! instruction: every change is recorded in the [`journal`] before it is made, and DEL needs only the journal.
//!
//! ```text
//! runtime ── variables, stdin ─▶ protocol ─▶ commands ─┬─ add ── apply ─┬─ ipoib, vf ── addresses             in-process
//!         ◀─ result or error ──                        │                ├─ rdma, coordinator
//!                                                      │                └─ delegate             foreign binaries
//!                                                      ├─ del ── undo ──── the same, in reverse
//!                                                      ├─ check
//!                                                      ├─ gc
//!                                                      └─ status
//! ```
//!
//! | Folder | Contents |
//! |---|---|
//! | `protocol` | the CNI call: variables, configuration, arguments, version, result, error |
//! | `ipc` | the connection to the node daemon: socket, messages, plan, client |
//! | `state` | files in `var/lib/ferroband` and `run/ferroband`: journal, locks, pending releases and statuses |
//! | `steps` | what each plugin does to the node: apply, undo and check |
//! | `legacy` | state files of the replaced plugins |
//! | `commands` | ADD, DEL, CHECK, GC and STATUS |
//!
//! A folder uses only the folders above it in this table.
//!
//! The daemon uses [`socket`], [`message`], [`plan`], [`pending_release`], [`pending_status`] and [`journal`] from this
//! crate, so both sides share one implementation.

mod commands;
mod ipc;
mod legacy;
pub mod protocol;
mod state;
mod steps;

pub use commands::{DeferredSignals, run, serve_call};
pub use ferroband_config::{POD_ANNOTATIONS_CAPABILITY, PlainPods};
pub use ipc::message::DeviceOp;
pub use ipc::{daemon_mark, message, plan, socket, socket_path};
pub use protocol::{
    AttachmentId, CallTimeouts, CniCommand, CniContext, CniEnvironment, CniResult, CniVersion, ConfigError,
    ConfigFields, Error, FailPoint, Invocation, PluginConfig, PluginType, args, result,
};
pub use state::{
    KEPT_RUN_FILES, KEPT_STATE, Lock, PendingUninstall, device_info, journal, pending_release,
    pending_status, remove_leftovers,
};
pub use steps::{delegate, device_op};
