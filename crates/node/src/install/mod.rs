//! Putting Ferroband in the way of the runtime, and keeping it there.
//!
//! ```text
//! image: ferroband-cni ──copy──▶ opt/cni/bin/ferroband ◀── aliases, only where asked
//! etc/cni/net.d/10-calico.conflist ──wrap──▶ etc/cni/net.d/00-ferroband.conflist   once ADD can be served
//! ```
//!
//! Nothing of it is removed when the daemon stops: a runtime that finds no Ferroband would silently give pods the
//! default network only.

mod binary;
mod conflist;
mod replace;
#[cfg(test)]
mod tests;

pub use binary::install as binaries;
pub use conflist::{CONFLIST, keep as keep_conflist, render};
pub use replace::replace;
