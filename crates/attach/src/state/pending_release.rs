//! Pending releases: releases that DEL could not send because the daemon was unavailable.
//!
//! DEL writes the pending release before it removes the journal, and succeeds. The daemon retries all pending releases
//! when it is back.

use crate::ipc::message::DaemonRequest;
use crate::ipc::node_client::NodeClient;
use crate::protocol::{AttachmentId, CniContext, Error, FailPoint};
use crate::state::{Lock, state_file};
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A release that has not reached the daemon yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRelease {
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// Interface whose addresses are released; when absent, those of the whole sandbox are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// The pod of the sandbox; absent if the runtime named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Stem of the file name, shared with the lock file.
    #[serde(skip)]
    stem: String,
}

impl PendingRelease {
    /// Create a release for `id`. Nothing is written yet.
    pub fn new(id: &AttachmentId, pod: Option<PodRef>) -> Self {
        Self {
            container: id.container().to_owned(),
            ifname: id.ifname().map(str::to_owned),
            pod,
            stem: id.file_stem(),
        }
    }

    /// The request to send to the daemon.
    pub fn to_request(&self) -> DaemonRequest {
        DaemonRequest::Release { container: self.container.clone(), ifname: self.ifname.clone() }
    }

    /// Write this release to disk. The caller holds the attachment's lock.
    pub fn write(&self, root: &Root) -> Result<(), Error> {
        state_file::write(&self.path(root), self)
    }

    /// Remove the file of this release, if it exists. The caller holds the attachment's lock.
    pub fn remove(&self, root: &Root) -> Result<(), Error> {
        state_file::remove(&self.path(root))
    }

    /// Whether the file exists, that is, whether the release is still pending.
    pub fn exists(&self, root: &Root) -> bool {
        self.path(root).exists()
    }

    /// Send the release to the daemon, or queue it on disk if the daemon is unavailable.
    ///
    /// If `daemon` is a connection that is still usable, it is used. Otherwise a new one is opened.
    pub(crate) fn send_or_queue(
        &self,
        context: &CniContext<'_>,
        daemon: Option<NodeClient>,
    ) -> Result<(), Error> {
        let result = match daemon.filter(NodeClient::is_usable) {
            Some(daemon) => Ok(daemon),
            None => NodeClient::connect(context, Duration::ZERO),
        };
        let result = result.and_then(|mut daemon| {
            daemon.set_timeout(context.timeouts.best_effort)?;
            daemon.request_done(context, &self.to_request())
        });
        match result {
            Ok(()) => self.remove(context.root),
            Err(error) => {
                eprintln!(
                    "ferroband: cannot release the addresses of container {} now, queued for retry: {error}",
                    self.container
                );
                self.write(context.root)?;
                (context.fail_point)(FailPoint::ReleaseQueued);
                Ok(())
            }
        }
    }

    /// Send the release if it is pending from an earlier call of this sandbox. If the daemon's own retry ran it later,
    /// it would release the addresses that this call gets.
    pub(crate) fn send_pending(
        &self,
        context: &CniContext<'_>,
        daemon: &mut NodeClient,
    ) -> Result<(), Error> {
        match self.exists(context.root) {
            true => daemon.request(context, &self.to_request()).and_then(|_| self.remove(context.root)),
            false => Ok(()),
        }
    }

    /// Claim this release for a retry. `None` if a CNI call of the same sandbox is running or has already released it.
    pub fn claim(self, root: &Root) -> Result<Option<ReleaseClaim>, Error> {
        let lock = match Lock::acquire_stem(root, &self.stem, Duration::ZERO) {
            Err(Error::Locked { .. }) => return Ok(None),
            other => other?,
        };
        if self.exists(root) {
            return Ok(Some(ReleaseClaim { release: self, lock }));
        }
        lock.release_and_remove();
        Ok(None)
    }

    fn path(&self, root: &Root) -> PathBuf {
        root.state("owed").join(format!("{}.json", self.stem))
    }
}

/// List all pending releases. A file that cannot be read appears as an error among the others.
pub fn list_pending(root: &Root) -> Result<Vec<Result<PendingRelease, Error>>, Error> {
    let mut found = Vec::new();
    for path in state_file::list(&root.state("owed"))? {
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        match state_file::read::<PendingRelease>(&path) {
            Ok(Some(release)) => found.push(Ok(PendingRelease { stem: stem.to_owned(), ..release })),
            Ok(None) => {}
            Err(error) => found.push(Err(error)),
        }
    }
    Ok(found)
}

/// A pending release under its lock. No CNI call of its sandbox runs meanwhile, so the release cannot race a new ADD.
#[derive(Debug)]
pub struct ReleaseClaim {
    release: PendingRelease,
    lock: Lock,
}

impl ReleaseClaim {
    pub fn release(&self) -> &PendingRelease {
        &self.release
    }

    /// Remove the pending release after it succeeded. A claim that is dropped instead stays pending.
    pub fn complete(self, root: &Root) -> Result<(), Error> {
        self.release.remove(root)?;
        self.lock.release_and_remove();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::PluginType;

    #[test]
    fn pending_releases_are_listed_claimed_and_completed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(list_pending(&root).unwrap().is_empty());
        let whole = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
        let single = AttachmentId::new(PluginType::Whereabouts, "c1", "net1");
        PendingRelease::new(&whole, None).write(&root).unwrap();
        PendingRelease::new(&single, None).write(&root).unwrap();
        std::fs::write(root.state("owed").join("c2.json"), "{").unwrap();

        let (good, bad): (Vec<_>, Vec<_>) = list_pending(&root).unwrap().into_iter().partition(Result::is_ok);
        assert!(matches!(bad.as_slice(), [Err(Error::CorruptFile { .. })]));
        let mut requests = Vec::new();
        for release in good {
            let claim = release.unwrap().claim(&root).unwrap().unwrap();
            requests.push(claim.release().to_request());
            claim.complete(&root).unwrap();
        }
        requests.sort_by_key(|request| format!("{request:?}"));
        let release = |ifname: Option<&str>| DaemonRequest::Release {
            container: "c1".into(),
            ifname: ifname.map(str::to_owned),
        };
        assert_eq!(requests, [release(None), release(Some("net1"))]);
        assert_eq!(list_pending(&root).unwrap().len(), 1);
    }

    #[test]
    fn claim_fails_while_a_call_runs_and_after_it_released() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let id = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
        let release = PendingRelease::new(&id, None);
        release.write(&root).unwrap();
        let running = Lock::acquire(&root, &id, Duration::ZERO).unwrap();
        assert!(release.clone().claim(&root).unwrap().is_none());
        release.remove(&root).unwrap();
        drop(running);
        assert!(release.claim(&root).unwrap().is_none());
    }
}
