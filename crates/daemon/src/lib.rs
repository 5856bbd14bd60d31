//! Common parts of the node daemon and the cluster daemon. The daemons communicate only through API objects, and both
//! tolerate an API server that is temporarily unavailable.
//!
//! ```text
//!  API server ──watch_cache::watch_forever──▶ WatchCache ──▶ controllers  retries while the API server is away
//!             ◀──api_call::with_timeout────── writes                     success, a classified failure, or a timeout
//!
//!  addresses: conversion of AddressBlock and pool objects; condition: status conditions
//!  request_panic: a panic of a request fails the request, any other panic ends the process
//!  tasks::TaskSet: tasks that run as long as the daemon; shutdown: SIGTERM and SIGINT
//! ```

mod client;
mod condition;
mod error_chain;
mod request_panic;
mod shutdown;

pub mod addresses;
pub mod api_call;
pub mod tasks;
pub mod watch_cache;

pub use client::api_client;
pub use condition::condition;
pub use error_chain::error_chain;
pub use request_panic::{RequestPanic, abort_on_panic, catch_panic, catch_panic_async};
pub use shutdown::shutdown_signal;
