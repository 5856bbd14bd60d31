//! Releases that could not be told to the daemon, because it was away when the sandbox was deleted.
//!
//! A DEL writes the debt down before it forgets the sandbox, and succeeds; the daemon settles what it finds
//! here when it is back.

use crate::message::DaemonRequest;
use crate::{AttachmentId, Error, Lock, record};
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A release that the daemon has yet to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRelease {
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// Only this interface; all of the sandbox when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// The pod, when it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The stem of its file, which is also that of its lock.
    #[serde(skip)]
    stem: String,
}

impl PendingRelease {
    /// What the holder of `key` owes.
    pub fn new(key: &AttachmentId, pod: Option<PodRef>) -> Self {
        Self {
            container: key.container().to_owned(),
            ifname: key.ifname().map(str::to_owned),
            pod,
            stem: key.file_stem(),
        }
    }

    /// As it is told to the daemon.
    pub fn to_request(&self) -> DaemonRequest {
        DaemonRequest::Release { container: self.container.clone(), ifname: self.ifname.clone() }
    }

    /// Write it down. The caller holds the key's lock.
    pub fn write(&self, root: &Root) -> Result<(), Error> {
        record::write(&self.path(root), self)
    }

    /// It is settled, or never was. The caller holds the key's lock.
    pub fn remove(&self, root: &Root) -> Result<(), Error> {
        record::remove(&self.path(root))
    }

    /// Whether it is written down.
    pub fn exists(&self, root: &Root) -> bool {
        self.path(root).exists()
    }

    /// Take this debt to settle it: `None` when a call of the same sandbox is running, or has settled it.
    pub fn claim(self, root: &Root) -> Result<Option<ReleaseClaim>, Error> {
        let lock = match Lock::acquire_stem(root, &self.stem, Duration::ZERO) {
            Err(Error::Locked { .. }) => return Ok(None),
            other => other?,
        };
        if self.exists(root) {
            return Ok(Some(ReleaseClaim { owed: self, lock }));
        }
        lock.release_and_remove();
        Ok(None)
    }

    fn path(&self, root: &Root) -> PathBuf {
        root.state("owed").join(format!("{}.json", self.stem))
    }
}

/// All debts that are written down. One that cannot be read comes as the error that says so, beside the others.
pub fn list_pending(root: &Root) -> Result<Vec<Result<PendingRelease, Error>>, Error> {
    let mut found = Vec::new();
    for path in record::list(&root.state("owed"))? {
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        match record::read::<PendingRelease>(&path) {
            Ok(Some(owed)) => found.push(Ok(PendingRelease { stem: stem.to_owned(), ..owed })),
            Ok(None) => {}
            Err(error) => found.push(Err(error)),
        }
    }
    Ok(found)
}

/// A debt held for settling. No CNI call of its sandbox runs meanwhile, so the release cannot meet a new ADD.
#[derive(Debug)]
pub struct ReleaseClaim {
    owed: PendingRelease,
    lock: Lock,
}

impl ReleaseClaim {
    /// What to release.
    pub fn release(&self) -> &PendingRelease {
        &self.owed
    }

    /// It is released: forget the debt. A claim that is dropped instead stays owed.
    pub fn complete(self, root: &Root) -> Result<(), Error> {
        self.owed.remove(root)?;
        self.lock.release_and_remove();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PluginType;

    #[test]
    fn debts_are_listed_claimed_and_settled() {
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
        for owed in good {
            let claim = owed.unwrap().claim(&root).unwrap().unwrap();
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
    fn a_debt_waits_while_a_call_runs_and_is_gone_when_that_settled_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let key = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
        let owed = PendingRelease::new(&key, None);
        owed.write(&root).unwrap();
        let running = Lock::acquire(&root, &key, Duration::ZERO).unwrap();
        assert!(owed.clone().claim(&root).unwrap().is_none());
        owed.remove(&root).unwrap();
        drop(running);
        assert!(owed.claim(&root).unwrap().is_none());
    }
}
