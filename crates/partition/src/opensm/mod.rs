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

mod file;
mod grammar;
mod hosts;
mod place;
mod render;

pub use file::write;
pub use grammar::{File, Statement, parse};
pub use hosts::{Facts, Host, Opensm};
pub use place::Local;
pub use render::{BEGIN, END, render, understood};
