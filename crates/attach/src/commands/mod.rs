//! The CNI commands: ADD, DEL, CHECK, GC and STATUS of each plugin type.

mod add;
mod check;
mod deferred_signals;
mod del;
mod gc;
mod run;
mod sandbox;
mod status;

pub use deferred_signals::DeferredSignals;
pub use run::{run, serve_call};
