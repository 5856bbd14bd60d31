//! The CNI plugin: attaches pod sandboxes to networks and detaches them.
//!
//! The node daemon decides what to do (a [`plan::Plan`]). This crate does it, in a short-lived process without a
//! Kubernetes client, async runtime or any network access other than one Unix socket. The process may be killed at any
//! instruction: every change is recorded in the [`journal`] before it is made, and DEL needs only the journal.
//!
//! ```text
//! runtime ── variables, stdin ─▶ protocol ─▶ run ─┬─ add ── apply ─┬─ ipoib, vf ── address  in-process
//!         ◀─ result or error ──                   │                ├─ rdma, coordinator
//!                                                 │                └─ chain ── delegate     foreign binaries
//!                                                 ├─ del ── undo ──── the same, in reverse
//!                                                 ├─ check
//!                                                 ├─ gc
//!                                                 └─ status
//!      socket: message ◀──▶ node daemon           journal, owed: files in var/lib/ferroband
//!                                                 lock, pending_status: in run/ferroband
//! ```
//!
//! The daemon uses [`socket`], [`message`], [`plan`], [`owed`], [`pending_status`] and [`journal`] from this crate, so
//! both sides share one implementation.

mod add;
mod address;
mod apply;
pub mod args;
pub mod chain;
mod check;
mod config;
mod coordinator;
mod daemon;
mod default_route;
mod del;
pub mod delegate;
pub mod device_info;
mod error;
mod fault;
mod gc;
mod ipoib;
pub mod journal;
mod key;
mod leave;
mod leftovers;
mod lock;
mod machine;
pub mod message;
pub mod owed;
pub mod pending_status;
mod plain;
pub mod plan;
pub mod protocol;
mod rdma;
mod readiness;
mod record;
pub mod result;
mod role;
mod run;
mod sandbox;
mod signals;
pub mod socket;
mod status;
pub mod unbroken;
mod undo;
mod upstream;
mod version;
mod vf;

pub use config::{ConfigFields, PluginConfig};
pub use daemon::socket_path;
pub use error::Error;
pub use key::AttachmentId;
pub use leave::PendingUninstall;
pub use leftovers::{KEPT_RUN_FILES, KEPT_STATE, remove_leftovers};
pub use lock::Lock;
pub use machine::{CallTimeouts, CniContext, FailPoint};
pub use plain::{POD_ANNOTATIONS_CAPABILITY, PlainPods};
pub use protocol::{CniCommand, CniEnvironment, Invocation};
pub use result::CniResult;
pub use role::PluginType;
pub use run::{run, serve_call};
pub use signals::DeferredSignals;
pub use unbroken::DeviceOp;
pub use version::CniVersion;
