//! The revisions of etcd that a daemon has seen, and how they show a restore from a backup. Does no I/O.
//!
//! A resourceVersion is a revision of etcd. Revisions only grow, by one with each write. A restore sets them back to the
//! revision of the backup, or far ahead (`etcdutl snapshot restore --bump-revision`).

use ferroband_api::ferroband::NoticedRestore;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Growth between two observations that means a restore. Administrators are advised to bump revisions by 10⁹.
const RESTORE_JUMP: u64 = 100_000_000;
/// More writes per second than etcd can store. A daemon that was off for a day may miss more than [`RESTORE_JUMP`]
/// revisions without any restore.
const MAX_WRITES_PER_SECOND: u64 = 20_000;
/// How long a daemon may be without contact to the API server and still rely on its revision.
const MAX_GAP: i64 = 600;

/// What a daemon knows about the history of etcd. A node keeps it in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevisionHistory {
    /// The highest revision seen since the last restore; zero if none was seen.
    pub revision: u64,
    /// When the API server was last known to be at least at `revision`, in seconds of Unix time.
    pub seen_at: i64,
    /// The newest epoch that the AddressState had. A backup that is restored later contains an older one.
    #[serde(default)]
    pub epoch: String,
    /// How often nothing was known for longer than [`MAX_GAP`], also at the first start. A restore may have gone unnoticed
    /// in the meantime: revisions may have grown again.
    #[serde(default)]
    pub gaps: u64,
    /// The value of `gaps` when the leader last confirmed that no restore was under way.
    #[serde(default)]
    pub confirmed_gaps: u64,
    /// A restore that was noticed and that the AddressState does not show yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed: Option<NoticedRestore>,
}

impl RevisionHistory {
    /// Takes the current revision of etcd, and the AddressState's epoch at that revision. `at_least` is the revision that
    /// was known when the request began: a response that was overtaken by another is no evidence.
    ///
    /// A newer epoch means that the leader knows of the restore.
    pub fn observe_current(&mut self, at_least: u64, revision: u64, epoch: &str, now: Timestamp) {
        let is_new_epoch = epoch > self.epoch.as_str();
        let older = (revision < at_least).then(|| format!("revision {revision} after {at_least}"));
        // This also shows a second restore when revisions have grown again.
        let went_back = (epoch < self.epoch.as_str())
            .then(|| format!("the AddressState went back from epoch {:?} to {epoch:?}", self.epoch));
        let evidence = older.or_else(|| self.jump(revision, now)).or(went_back);
        let restored = evidence.is_some() && self.revision > 0;
        if let Some(reason) = evidence.filter(|_| restored && !is_new_epoch) {
            self.noticed = Some(NoticedRestore { epoch: epoch.to_owned(), reason });
        }
        let silence = now.as_second().saturating_sub(self.seen_at);
        // A negative time means that the clock was changed.
        if self.revision == 0 || !(0..=MAX_GAP).contains(&silence) {
            self.gaps += 1;
        }
        self.revision = if restored { revision } else { self.revision.max(revision) };
        self.seen_at = now.as_second();
        self.observe_epoch(epoch);
    }

    /// Takes the version of an object. Objects that did not change for a long time have old versions, so only a version
    /// that is too high means a restore.
    pub fn observe_version(&mut self, version: u64, now: Timestamp) {
        if version <= self.revision {
            return;
        }
        if let Some(reason) = self.jump(version, now).filter(|_| self.revision > 0) {
            self.noticed = Some(NoticedRestore { epoch: self.epoch.clone(), reason });
        }
        (self.revision, self.seen_at) = (version, now.as_second());
    }

    /// Takes the epoch of the AddressState. A newer one answers what was noticed before.
    pub fn observe_epoch(&mut self, epoch: &str) {
        if epoch > self.epoch.as_str() {
            epoch.clone_into(&mut self.epoch);
            self.noticed = None;
        }
    }

    fn jump(&self, revision: u64, now: Timestamp) -> Option<String> {
        let seconds = now.as_second().saturating_sub(self.seen_at);
        let plausible = u64::try_from(seconds).unwrap_or_default().saturating_mul(MAX_WRITES_PER_SECOND);
        let growth = revision.saturating_sub(self.revision);
        let is_jump = growth > RESTORE_JUMP && growth > plausible;
        is_jump.then(|| format!("revision {revision} only {seconds} s after {}", self.revision))
    }
}

#[cfg(test)]
mod tests;
