//! Pending statuses: sandboxes whose `network-status` the daemon still has to write.
//!
//! ADD of a plain pod does not wait for the daemon. It leaves a file, and the daemon writes the status from the journal,
//! at once if it runs, otherwise when it is back. The files are on tmpfs: after a reboot every sandbox is a new one.

#![warn(missing_docs)]

use crate::ipc::message::AttachmentOutcome;
use crate::ipc::plan::Plan;
use crate::protocol::{AttachmentId, Error};
use crate::state::journal::Journal;
use crate::state::state_file;
use ferroband_kernel::Root;
use serde_json::json;
use std::path::PathBuf;

/// A sandbox whose status is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingStatus {
    id: AttachmentId,
}

impl PendingStatus {
    /// The pending status of `id`. Nothing is written yet.
    pub fn new(id: AttachmentId) -> Self {
        Self { id }
    }

    /// The directory of the files.
    pub fn dir(root: &Root) -> PathBuf {
        root.run("ferroband/status")
    }

    /// List all pending statuses, in no particular order.
    pub fn list(root: &Root) -> Result<Vec<Self>, Error> {
        let paths = state_file::list(&Self::dir(root))?.into_iter();
        let id = |path: PathBuf| AttachmentId::from_stem(path.file_stem()?.to_str()?);
        Ok(paths.filter_map(id).map(Self::new).collect())
    }

    /// Write the file. The journal must be complete.
    pub fn write(&self, root: &Root) -> Result<(), Error> {
        state_file::write(&self.path(root), &json!({}))
    }

    /// Remove the file, if it exists: the status is written, or the sandbox is deleted.
    pub fn remove(&self, root: &Root) -> Result<(), Error> {
        state_file::remove(&self.path(root))
    }

    /// `CNI_CONTAINERID`.
    pub fn container(&self) -> &str {
        self.id.container()
    }

    /// The pod's plan and results, from the journal. `None` if the sandbox was deleted or has no pod.
    pub fn load(&self, root: &Root) -> Result<Option<(Plan, Vec<AttachmentOutcome>)>, Error> {
        let journal = Journal::load(root, &self.id)?.filter(|journal| journal.attached);
        let Some((pod, journal)) = journal.and_then(|journal| Some((journal.pod.clone()?, journal))) else {
            return Ok(None);
        };
        let outcomes = journal.outcomes(root)?;
        let attachments = journal.entries.into_iter().map(|entry| entry.attachment).collect();
        let container = self.container().to_owned();
        Ok(Some((Plan { pod, container, attachments, ..Plan::default() }, outcomes)))
    }

    fn path(&self, root: &Root) -> PathBuf {
        Self::dir(root).join(format!("{}.json", self.id.file_stem()))
    }
}
