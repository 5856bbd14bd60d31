//! Putting Ferroband in the way of the runtime, and keeping it there.
//!
//! ```text
//! image: ferroband-cni ──copy──▶ opt/cni/bin/ferroband ◀── aliases, only where asked
//! etc/cni/net.d/10-calico.conflist ──wrap──▶ etc/cni/net.d/00-ferroband.conflist   once ADD can be served
//! ```
//!
//! Nothing of it is removed when the daemon stops: a runtime that finds no Ferroband would silently give pods the
//! default network only. [`leave`] removes it, when the last pod that needs it is gone.

mod binary;
mod conflist;
mod leave;
mod replace;
#[cfg(test)]
mod tests;

pub use binary::install as binaries;
pub use conflist::{CONFLIST, keep as keep_conflist, render};
pub(crate) use leave::is_left;
pub use leave::{held, leave, stay};
pub use replace::replace;
