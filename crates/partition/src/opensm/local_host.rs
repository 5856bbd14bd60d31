//! An opensm on this machine.

use super::hosts::OpensmHost;
use super::{partitions_file, render};
use crate::{Error, MembershipTable};
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file on this machine, and a way to tell the opensm that reads it.
pub struct LocalOpensmHost {
    name: String,
    path: PathBuf,
    signal: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// What we wrote last: anything else in the file is somebody else's doing.
    last_written: Mutex<Option<String>>,
}

impl LocalOpensmHost {
    /// The file at `path`; `signal` makes its opensm read it (SIGHUP).
    pub fn new(
        name: impl Into<String>,
        path: impl Into<PathBuf>,
        signal: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            signal: Arc::new(signal),
            last_written: Mutex::default(),
        }
    }

    /// What stood in the file when it was good, from an earlier time.
    pub fn set_last_written(&self, text: String) {
        *self.last_written.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Makes the file say what is wanted; gives its text, and whether it was another. What is not ours in it stays.
    pub fn update_file(&self, wanted: &MembershipTable) -> Result<(String, bool), Error> {
        let existing = partitions_file::read_partitions_file(&self.path)?;
        // Somebody broke, emptied or removed the file that we had written. It is open already: putting it back, with what
        // was others' in it, is the remedy.
        let broken = existing.as_deref().is_none_or(|text| super::parse(text).is_err());
        let ours = self.last_written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let base = ours.filter(|_| broken);
        let text = render(base.as_deref().or(existing.as_deref()), wanted)?;
        let changed = existing.as_deref() != Some(text.as_str());
        if changed {
            partitions_file::write_partitions_file(&self.path, &text)?;
        }
        self.set_last_written(text.clone());
        Ok((text, changed))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl OpensmHost for LocalOpensmHost {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async { partitions_file::read_partitions_file(&self.path) })
    }

    fn write<'a>(&'a self, wanted: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { self.update_file(wanted).map(drop) })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            (self.signal)().map_err(|problem| Error::Host { host: self.name.clone(), problem })
        })
    }
}
