//! The CNI commands: ADD, DEL, CHECK, GC and STATUS of each plugin type.

mod add;
mod check;
mod del;
mod gc;
mod run;
mod sandbox;
mod status;

pub use run::{DeferredSignals, run, serve_call};
