//! Common parts of the node daemon and the cluster daemon. The daemons communicate only through API objects, and both
//! tolerate an API server that is temporarily unavailable.
//!
//! ```text
//!  API server ──reflector──▶ WatchCache ──Trigger──▶ Controller: passes, retried with backoff
//!       ▲                                               │
//!       └── apply, apply_status, api_call::with_timeout ┴ EventPublisher, condition
//!
//!  retry: pauses with jitter, and each failure logged once; loop_metrics: counters of controllers and watches
//!  address_state_watch, revision_watch, revision_history: notice restores of etcd by its revisions
//!  absent_kind: waits for a kind whose CRD is missing
//!  addresses: conversion of AddressBlock and pool objects
//!  request_panic: a panic of a request or of a controller's pass fails that one, any other panic ends the process
//!  tenant_policy: what pods may request, and which namespaces are trusted
//!  tasks::TaskSet: tasks that run as long as the daemon; shutdown_signal: SIGTERM and SIGINT
//! ```

mod absent_kind;
mod address_state_watch;
mod api_client;
mod condition;
mod controller;
mod error_chain;
mod events;
mod loop_metrics;
mod reflector;
mod request_panic;
mod retry;
mod revision_history;
mod revision_watch;
mod tenant_policy;

pub mod addresses;
pub mod api_call;
pub mod tasks;
pub mod watch_cache;

pub use address_state_watch::{AddressStateView, watch_address_state};
pub use api_call::{ApiKind, apply, apply_status, merge_patch};
pub use api_client::api_client;
pub use condition::condition;
pub use controller::{Controller, ControllerTiming, Trigger, run_controller, start_controller};
pub use error_chain::error_chain;
pub use events::EventPublisher;
pub use loop_metrics::render_loop_metrics;
pub use reflector::{Reflectors, SharedCache, decoded, map_event, named, reflect, watch_forever};
pub use request_panic::{RequestPanic, abort_on_panic, catch_panic, catch_panic_async};
pub use retry::{Retry, lengthened};
pub use revision_history::RevisionHistory;
pub use revision_watch::RevisionWatch;
pub use tasks::shutdown_signal;
pub use tenant_policy::{TenantPolicy, UnlistedPartitions};
pub use watch_cache::WatchCache;
