//! The product's own image: two static binaries.

use super::archive;
use crate::cache;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The name under which the lab's nodes have it.
pub const NAME: &str = "docker.io/library/ferroband:dev";

/// Build both binaries and pack them.
pub fn product() -> Result<PathBuf> {
    let _ = (archive::Scratch::new("product")?, cache::checkout());
    bail!("{NAME}: not yet")
}
