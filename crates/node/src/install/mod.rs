//! Putting Ferroband in the way of the runtime, and keeping it there.
//!
//! ```text
//! image: ferroband-cni ──copy──▶ opt/cni/bin/ferroband ◀── aliases, only where asked
//! etc/cni/net.d/10-calico.conflist ──wrap──▶ etc/cni/net.d/00-ferroband.conflist   once ADD can be served
//! ```
//!
//! Nothing of it is removed when the daemon stops: a runtime that finds no Ferroband would silently give pods the
//! default network only. [`leave`] removes it, when the last pod that needs it is gone.

mod atomic_write;
mod cni_binary;
mod conflist;
#[cfg(test)]
mod tests;
mod uninstall;

pub use atomic_write::write_atomically;
pub use cni_binary::install_binaries as binaries;
pub use conflist::{CONFLIST, keep_conflist, render_conflist};
pub(crate) use uninstall::is_uninstalled;
pub use uninstall::{cancel_uninstall, termination_signal, uninstall};
