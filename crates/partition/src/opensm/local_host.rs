//! The partitions file of the opensm on this host.

use super::{partitions_file, render};
use crate::{Error, MembershipTable};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// The local partitions file.
pub struct LocalOpensmHost {
    path: PathBuf,
    /// The partitions file as Ferroband last wrote it. It is restored if someone else makes the file invalid.
    last_written: Mutex<Option<String>>,
}

impl LocalOpensmHost {
    /// Manages the partitions file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), last_written: Mutex::default() }
    }

    /// Sets the text to restore if the partitions file becomes invalid, for example the text that Ferroband
    /// wrote before it restarted.
    pub fn set_last_written(&self, text: String) {
        *self.last_written.lock() = Some(text);
    }

    /// Updates Ferroband's section of the partitions file and preserves the rest. Returns the new text and
    /// whether it changed.
    pub fn update_file(&self, desired: &MembershipTable) -> Result<(String, bool), Error> {
        let existing = partitions_file::read_partitions_file(&self.path)?;
        // If someone else made the file invalid or removed it, opensm may already have made every port a full
        // member of the default partition. Restore the last text that Ferroband wrote, including the
        // partitions of others.
        let invalid = existing.as_deref().is_none_or(|text| super::parse(text).is_err());
        let last_written = self.last_written.lock().clone();
        let fallback = last_written.filter(|_| invalid);
        let text = render(fallback.as_deref().or(existing.as_deref()), desired)?;
        let changed = existing.as_deref() != Some(text.as_str());
        if changed {
            partitions_file::write_partitions_file(&self.path, &text)?;
        }
        self.set_last_written(text.clone());
        Ok((text, changed))
    }

    /// Path of the partitions file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
