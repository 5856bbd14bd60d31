//! Logging to standard error: text on a terminal, JSON otherwise.

use crate::arguments::Arguments;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

pub fn init(arguments: &Arguments) {
    // kube_client::client::builder logs errors that it also returns. Its log lines are disabled, because the
    // callers log these errors with context.
    let default = match arguments.command.is_daemon() {
        true => "info,kube_client::client::builder=off",
        false => "warn,kube_client::client::builder=off",
    };
    let directives = arguments.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(directives).unwrap_or_else(|e| {
        eprintln!("ferroband: invalid log filter {directives:?}: {e}; using {default:?}");
        EnvFilter::new(default)
    });
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    if stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
    }
}
