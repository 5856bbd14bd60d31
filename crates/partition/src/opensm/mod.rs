//! opensm, configured through `partitions.conf`.
//!
//! ```text
//! MembershipTable ──render──▶ text ──parse, compare──▶ written on every host ──▶ then every opensm is signalled
//!                               ▲                        (temporary file, fsync, rename)
//!                               └── everything outside of Ferroband's section is preserved
//! ```
//!
//! opensm fails open: if the file is empty, invalid or half-written when a link flap causes a sweep, every port of the
//! fabric becomes a full member of the default partition. A text is therefore written only if Ferroband's parser, which
//! is stricter than opensm's, accepts all of it and finds exactly the desired memberships.

mod grammar;
mod host;
mod hosts;
mod local_host;
mod partitions_file;
mod render;

pub use grammar::{PartitionStatement, PartitionsFile, parse};
pub use host::{OpensmHost, OpensmHostStatus};
pub use hosts::Opensm;
pub use local_host::LocalOpensmHost;
pub use partitions_file::write_partitions_file;
pub use render::{BEGIN_MARKER, END_MARKER, parse_members, render};
