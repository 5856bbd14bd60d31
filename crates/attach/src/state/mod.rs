//! Files that a call leaves for later calls and for the daemon: journals, locks, pending releases and statuses.

pub mod device_info;
pub mod journal;
pub(crate) mod json_file;
mod leftovers;
mod lock;
pub mod pending_release;
pub mod pending_status;
pub(crate) mod pending_uninstall;

pub use leftovers::{KEPT_RUN_FILES, KEPT_STATE, remove_leftovers};
pub use lock::Lock;
pub use pending_uninstall::PendingUninstall;
