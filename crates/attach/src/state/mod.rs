//! Files that a call leaves for later calls and for the daemon: journals, locks, pending releases and statuses.

pub mod device_info;
pub mod journal;
mod leftovers;
pub mod pending_release;
pub mod pending_status;
pub(crate) mod pending_uninstall;
pub(crate) mod state_file;

pub use leftovers::{KEPT_RUN_FILES, KEPT_STATE, remove_leftovers};
pub use pending_uninstall::PendingUninstall;
pub use state_file::Lock;
