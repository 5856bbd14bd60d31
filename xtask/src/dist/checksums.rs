//! `SHA256SUMS` in the format of `sha256sum --check`.

use anyhow::{Context, Result};
use ferroband_lab::command::{command, output};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// File name of the list.
pub const FILE: &str = "SHA256SUMS";

/// Writes checksums of all files in `folder`, sorted by name, and verifies them.
pub fn write(folder: &Path) -> Result<()> {
    fs::write(folder.join(FILE), sums(folder)?).with_context(|| format!("cannot write {FILE}"))?;
    verify(folder)
}

/// Checksums of all files in `folder`, sorted by name.
pub fn sums(folder: &Path) -> Result<String> {
    output(command("sha256sum", ["--"]).args(files(folder)?).current_dir(folder))
}

/// Fails if a file does not match its checksum.
pub fn verify(folder: &Path) -> Result<()> {
    output(command("sha256sum", ["--check", "--strict", "--quiet", FILE]).current_dir(folder)).map(drop)
}

/// Files named in the list of `folder`; paths that lead out of the folder are ignored.
pub fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let named = text.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| PathBuf::from(name));
    Ok(named.filter(|name| name.components().all(|c| matches!(c, Component::Normal(_)))).collect())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            let name = path.strip_prefix(folder).unwrap_or(&path).to_path_buf();
            if path.is_dir() {
                open.push(path);
            } else if name != Path::new(FILE) {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}
