//! Releases that could not be told to the daemon, because it was away when the sandbox was deleted.
//!
//! A DEL writes the debt down before it forgets the sandbox, and succeeds; the daemon settles what it finds
//! here when it is back.

use crate::message::Request;
use crate::{Error, Key, Lock, record};
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A release that the daemon has yet to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
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

impl Owed {
    /// What the holder of `key` owes.
    pub fn new(key: &Key, pod: Option<PodRef>) -> Self {
        Self {
            container: key.container().to_owned(),
            ifname: key.ifname().map(str::to_owned),
            pod,
            stem: key.stem(),
        }
    }

    /// As it is told to the daemon.
    pub fn request(&self) -> Request {
        Request::Release { container: self.container.clone(), ifname: self.ifname.clone() }
    }

    /// Write it down. The caller holds the key's lock.
    pub fn write(&self, root: &Root) -> Result<(), Error> {
        record::write(&self.path(root), self)
    }

    /// It is settled, or never was. The caller holds the key's lock.
    pub fn forget(&self, root: &Root) -> Result<(), Error> {
        record::remove(&self.path(root))
    }

    /// Whether it is written down.
    pub fn stands(&self, root: &Root) -> bool {
        self.path(root).exists()
    }

    /// Take this debt to settle it: `None` when a call of the same sandbox is running, or has settled it.
    pub fn claim(self, root: &Root) -> Result<Option<Claim>, Error> {
        let lock = match Lock::take_stem(root, &self.stem, Duration::ZERO) {
            Err(Error::Busy { .. }) => return Ok(None),
            other => other?,
        };
        if self.stands(root) {
            return Ok(Some(Claim { owed: self, lock }));
        }
        lock.retire();
        Ok(None)
    }

    fn path(&self, root: &Root) -> PathBuf {
        root.state("owed").join(format!("{}.json", self.stem))
    }
}

/// All debts that are written down. One that cannot be read comes as the error that says so, beside the others.
pub fn all(root: &Root) -> Result<Vec<Result<Owed, Error>>, Error> {
    let mut found = Vec::new();
    for path in record::list(&root.state("owed"))? {
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        match record::read::<Owed>(&path) {
            Ok(Some(owed)) => found.push(Ok(Owed { stem: stem.to_owned(), ..owed })),
            Ok(None) => {}
            Err(error) => found.push(Err(error)),
        }
    }
    Ok(found)
}

/// A debt held for settling. No CNI call of its sandbox runs meanwhile, so the release cannot meet a new ADD.
#[derive(Debug)]
pub struct Claim {
    owed: Owed,
    lock: Lock,
}

impl Claim {
    /// What to release.
    pub fn owed(&self) -> &Owed {
        &self.owed
    }

    /// It is released: forget the debt. A claim that is dropped instead stays owed.
    pub fn settled(self, root: &Root) -> Result<(), Error> {
        self.owed.forget(root)?;
        self.lock.retire();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    #[test]
    fn debts_are_listed_claimed_and_settled() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(all(&root).unwrap().is_empty());
        let whole = Key::new(Role::Ferroband, "c1", "eth0");
        let single = Key::new(Role::Whereabouts, "c1", "net1");
        Owed::new(&whole, None).write(&root).unwrap();
        Owed::new(&single, None).write(&root).unwrap();
        std::fs::write(root.state("owed").join("c2.json"), "{").unwrap();

        let (good, bad): (Vec<_>, Vec<_>) = all(&root).unwrap().into_iter().partition(Result::is_ok);
        assert!(matches!(bad.as_slice(), [Err(Error::Corrupt { .. })]));
        let mut requests = Vec::new();
        for owed in good {
            let claim = owed.unwrap().claim(&root).unwrap().unwrap();
            requests.push(claim.owed().request());
            claim.settled(&root).unwrap();
        }
        requests.sort_by_key(|request| format!("{request:?}"));
        let release = |ifname: Option<&str>| Request::Release {
            container: "c1".into(),
            ifname: ifname.map(str::to_owned),
        };
        assert_eq!(requests, [release(None), release(Some("net1"))]);
        assert_eq!(all(&root).unwrap().len(), 1);
    }

    #[test]
    fn a_debt_waits_while_a_call_runs_and_is_gone_when_that_settled_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let key = Key::new(Role::Ferroband, "c1", "eth0");
        let owed = Owed::new(&key, None);
        owed.write(&root).unwrap();
        let running = Lock::take(&root, &key, Duration::ZERO).unwrap();
        assert!(owed.clone().claim(&root).unwrap().is_none());
        owed.forget(&root).unwrap();
        drop(running);
        assert!(owed.claim(&root).unwrap().is_none());
    }
}
