//! Cache entries of emulated machines, keyed by a hash of their inputs.

use anyhow::{Context, Result};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// The folder `vm` of the project's cache.
#[derive(Debug, Clone)]
pub struct VmCache {
    root: PathBuf,
}

impl VmCache {
    /// Opens the folder; creates it if missing.
    pub fn open() -> Result<Self> {
        Ok(Self { root: crate::cache::folder("vm")? })
    }

    /// A folder without a key: downloads, console logs.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(dir)
    }

    /// The folder `name-key`, filled by `fill` if missing.
    ///
    /// It is renamed to its final name after `fill` has succeeded, so an interrupted run leaves no incomplete entry.
    pub fn keyed(&self, name: &str, key: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let done = self.root.join(format!("{name}-{key}"));
        if done.is_dir() {
            return Ok(done);
        }
        let raw = self.root.join(format!(".{name}-{key}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&raw);
        fs::create_dir_all(&raw).with_context(|| format!("create {}", raw.display()))?;
        let filled = fill(&raw);
        if filled.is_ok() && !done.is_dir() {
            fs::rename(&raw, &done).with_context(|| format!("rename to {}", done.display()))?;
        } else {
            let _ = fs::remove_dir_all(&raw);
        }
        filled.map(|()| done)
    }
}

/// A short hash of any hashable value. It may change with the Rust toolchain, which only causes a rebuild.
pub fn hash_key(of: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// All regular files under `dir`, sorted, without build outputs (`target`).
pub fn files_under(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("list {}", dir.display()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.file_name() != "target" {
                left.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
