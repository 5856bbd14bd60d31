//! This node's part in a restore of etcd from a backup, which may have lost the entries of running pods.
//!
//! ```text
//!  revision_file ──▶ RevisionWatch ◀── AddressState (lists, bookmarks), AddressBlocks (versions)
//!                         │ noticed
//!  RestoreCoordinator ◀───┴── AddressState: epoch, phase      evidence: entries of running pods written again
//!      ├──▶ AssignmentGate: no new addresses meanwhile                   ▲ epoch        │ asserted
//!      ├──▶ NodePartitions: noticed, assertedEpoch, start ──▶ leader     └──────────────┘
//! ```

mod coordinator;
mod revision_file;

pub use coordinator::RestoreCoordinator;
pub use revision_file::{keep_revision_file, load_revision_history};
