//! An opensm on this machine.

use super::hosts::Host;
use super::{file, render};
use crate::{Error, Table};
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file on this machine, and a way to tell the opensm that reads it.
pub struct Local {
    name: String,
    path: PathBuf,
    signal: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// What we wrote last: anything else in the file is somebody else's doing.
    written: Mutex<Option<String>>,
}

impl Local {
    /// The file at `path`; `signal` makes its opensm read it (SIGHUP).
    pub fn new(
        name: impl Into<String>,
        path: impl Into<PathBuf>,
        signal: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), path: path.into(), signal: Arc::new(signal), written: Mutex::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Host for Local {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async { file::read(&self.path) })
    }

    fn write<'a>(&'a self, wanted: &'a Table) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            let existing = file::read(&self.path)?;
            let text = match render(existing.as_deref(), wanted) {
                Ok(text) => text,
                Err(error) => {
                    // Somebody broke the file that we had written. It is open already: putting ours back is the remedy.
                    let ours = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let ours =
                        ours.filter(|_| existing.as_deref().is_some_and(|text| super::parse(text).is_err()));
                    render(Some(&ours.ok_or(error)?), wanted)?
                }
            };
            if existing.as_deref() != Some(text.as_str()) {
                file::write(&self.path, &text)?;
            }
            *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            Ok(())
        })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            (self.signal)().map_err(|problem| Error::Host { host: self.name.clone(), problem })
        })
    }
}
