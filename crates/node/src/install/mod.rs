//! Installs the CNI plugin and its configuration, and keeps them in place.
//!
//! ```text
//! image: ferroband-cni ──copy──▶ opt/cni/bin/ferroband ◀── aliases, if configured
//!                            etc/udev/rules.d, etc/NetworkManager/conf.d: rules for interfaces of pods
//! etc/cni/net.d/10-calico.conflist ──wrap──▶ etc/cni/net.d/00-ferroband.conflist   once an ADD can succeed
//! ```
//!
//! Nothing is removed when the daemon stops: without the configuration, the runtime would silently attach
//! pods to the default network only. [`uninstall`] removes the files once the last pod with an attachment is
//! gone.

mod atomic_write;
mod cni_binary;
mod conflist;
mod host_rules;
mod removal;
#[cfg(test)]
mod tests;
mod uninstall;

pub use atomic_write::{create_dir, write_atomically};
pub use cni_binary::install_binaries;
pub use conflist::{ConflistStatus, keep_conflist, render_conflist};
pub use host_rules::install_host_rules;
pub use removal::ConflistRemoval;
pub use uninstall::{KeptFile, cancel_uninstall, list_kept_files, termination_signal, uninstall};
pub(crate) use uninstall::{is_uninstalled, remove_own_files};
