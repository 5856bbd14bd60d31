//! Names that users, peers and disks see, kept in `tests/golden/`, so that a change of one is never an accident.
//!
//! ```text
//! wire_types  ─▶ wire-types.txt   keys and variants of everything serde reads or writes
//! literals    ─▶ literals.txt     labels, annotations, field managers, folders, markers, JSON keys
//! reference   ─▶ reference.txt    kinds, fields, flags, variables, metrics, error codes
//! chart       ─▶ values.txt       Helm values and their defaults
//! ```
//!
//! `cargo xtask test unit` compares, `cargo xtask generate` writes. A reviewer reads the difference.

mod chart;
mod literals;
mod reference;
mod wire_types;

use super::sources::{self, Source};
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use std::fs;
use std::path::PathBuf;

/// Fails if a golden file differs from what the sources give now.
pub fn check(sources: &[Source]) -> Result<()> {
    let mut changes = Vec::new();
    for (path, text) in files(sources)? {
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let removed = kept.lines().filter(|line| !text.lines().any(|other| other == *line));
        changes.extend(removed.map(|line| format!("{name}: - {line}")));
        let added = text.lines().filter(|line| !kept.lines().any(|other| other == *line));
        changes.extend(added.map(|line| format!("{name}: + {line}")));
        if changes.is_empty() && kept != text {
            changes.push(format!("{name}: the number of equal lines differs"));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    bail!(
        "names that users or disks see have changed; if that is meant, run `cargo xtask generate`:\n{}",
        changes.join("\n")
    )
}

/// Writes the golden files.
pub fn write() -> Result<()> {
    for (path, text) in files(&sources::parse_all()?)? {
        fs::create_dir_all(path.with_file_name("")).context("cannot create tests/golden")?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn files(sources: &[Source]) -> Result<Vec<(PathBuf, String)>> {
    let folder = cache::checkout().join("tests/golden");
    let file = |name: &str, lines: Vec<String>| (folder.join(name), lines.join("\n") + "\n");
    Ok(vec![
        file("wire-types.txt", wire_types::lines(sources)),
        file("literals.txt", literals::lines(sources)),
        file("reference.txt", reference::lines()?),
        file("values.txt", chart::lines()?),
    ])
}
