//! Cache of slow builds and downloads, outside the checkout, so that all clones share it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The cache folder: `$FERROBAND_CACHE`, or `ferroband` in the user's cache folder.
pub fn root() -> Result<PathBuf> {
    let folder = if let Some(path) = std::env::var_os("FERROBAND_CACHE") {
        PathBuf::from(path)
    } else if let Some(xdg) = std::env::var_os("XDG_CACHE_HOME") {
        PathBuf::from(xdg).join("ferroband")
    } else {
        let home = std::env::var_os("HOME").context("neither FERROBAND_CACHE nor HOME is set")?;
        PathBuf::from(home).join(".cache/ferroband")
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    folder.canonicalize().with_context(|| format!("cannot resolve {}", folder.display()))
}

/// A folder in the cache, created if missing.
pub fn folder(name: impl AsRef<Path>) -> Result<PathBuf> {
    let folder = root()?.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// The checkout that this program was built from.
pub fn checkout() -> PathBuf {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    lab.parent().unwrap_or(lab).to_path_buf()
}

/// A short hash of files' contents for cache keys; not cryptographic.
pub fn hash_files(files: &[PathBuf]) -> Result<String> {
    let mut bytes = Vec::new();
    for file in files {
        bytes.extend(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(hash_bytes(&bytes))
}

/// A short hash of bytes (FNV-1a, 64 bits).
pub fn hash_bytes(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
