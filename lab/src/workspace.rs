//! The workspace as cargo describes it.

use crate::cache;
use crate::command::{command, output};
use anyhow::{Context, Result};
use serde_json::Value;

/// `cargo metadata` of the workspace's own packages, without their dependencies' metadata.
pub fn metadata() -> Result<Value> {
    let args = ["metadata", "--format-version=1", "--no-deps"];
    let text = output(command("cargo", args).current_dir(cache::checkout()))?;
    serde_json::from_str(&text).context("cannot parse the output of cargo metadata")
}
