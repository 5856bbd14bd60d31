//! opensm, through the file that it reads its partitions from.
//!
//! ```text
//! Table ──render──▶ text ──parse back, compare──▶ hosts: written on every one ──▶ then each is signalled
//!                     ▲                              (temporary file, fsync, rename)
//!                     └── what is not ours in the file stays as it is
//! ```
//!
//! opensm fails open: a file that is empty, has one wrong word in it or is half-written when somebody's link
//! flaps makes every port of the fabric a full member of the default partition. So a text is written only when our
//! own reader, which is stricter than opensm's, understands all of it and finds exactly what was wanted.

mod grammar;
mod hosts;
mod local_host;
mod partitions_file;
mod render;

pub use grammar::{PartitionStatement, PartitionsFile, parse};
pub use hosts::{Opensm, OpensmHost, OpensmHostStatus};
pub use local_host::LocalOpensmHost;
pub use partitions_file::write_partitions_file;
pub use render::{BEGIN_MARKER, END_MARKER, parse_members, render};
