//! The log: on standard error, for people on a terminal and as JSON for everything else.

use crate::arguments::Arguments;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Start to log.
pub fn init(arguments: &Arguments) {
    // Its errors come back to us, and are told with what they were about.
    let usual = match arguments.command.is_daemon() {
        true => "info,kube_client::client::builder=off",
        false => "warn,kube_client::client::builder=off",
    };
    let asked = arguments.log.as_deref().unwrap_or(usual);
    let filter = EnvFilter::try_new(asked).unwrap_or_else(|e| {
        eprintln!("ferroband: log filter {asked:?}: {e}; using {usual:?}");
        EnvFilter::new(usual)
    });
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    if stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
    }
}
