//! The charts' values without their comments.

use anyhow::{Context, Result};
use ferroband_lab::cache;
use std::fs;

const CHARTS: [&str; 2] = ["ferroband", "rdma-tools"];

/// Every line of each `values.yaml` that is neither blank nor a comment.
pub fn lines() -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for chart in CHARTS {
        let path = cache::checkout().join("deploy/charts").join(chart).join("values.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let values = text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
        lines.extend(values.map(|line| format!("{chart}: {line}")));
    }
    Ok(lines)
}
