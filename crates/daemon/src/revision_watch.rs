//! Shares the history of etcd's revisions between the tasks of a daemon.

use crate::revision_history::RevisionHistory;
use ferroband_api::ferroband::NoticedRestore;
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

/// Notices restores of etcd from the versions that the API server returns. All callers share one per daemon.
#[derive(Debug)]
pub struct RevisionWatch {
    history: watch::Sender<RevisionHistory>,
    /// The highest version of an AddressBlock that was seen. A node writes it to disk soon.
    blocks: watch::Sender<u64>,
}

impl RevisionWatch {
    /// Continues the history that an earlier daemon saved; the default if there is none.
    pub fn new(saved: RevisionHistory) -> Self {
        Self { blocks: watch::Sender::new(saved.revision), history: watch::Sender::new(saved) }
    }

    pub fn history(&self) -> RevisionHistory {
        self.history.borrow().clone()
    }

    /// Wakes on every change of the history.
    pub fn changes(&self) -> watch::Receiver<RevisionHistory> {
        self.history.subscribe()
    }

    /// Wakes when a version of an AddressBlock was the highest revision so far.
    pub fn block_changes(&self) -> watch::Receiver<u64> {
        self.blocks.subscribe()
    }

    /// The highest revision seen. It is read before a request whose answer goes to [`Self::observe_current`].
    pub fn highest(&self) -> u64 {
        self.history.borrow().revision
    }

    /// The restore that was noticed and that the AddressState does not show yet.
    pub fn noticed(&self) -> Option<NoticedRestore> {
        self.history.borrow().noticed.clone()
    }

    /// Takes the version of an AddressBlock that the API server returned. Cheap; may be called for every response. A
    /// version that is no number is ignored.
    pub fn observe(&self, version: &str) {
        let Ok(version) = version.parse() else { return };
        if version > self.highest() {
            self.update(|history| history.observe_version(version, Timestamp::now()));
            self.blocks.send_if_modified(|highest| std::mem::replace(highest, version) < version);
        }
    }

    /// Takes the revision of a consistent list, and the AddressState's epoch in it. `at_least` is [`Self::highest`] when
    /// the request began.
    pub fn observe_current(&self, at_least: u64, revision: &str, epoch: &str) {
        let Ok(revision) = revision.parse() else { return };
        self.update(|history| history.observe_current(at_least, revision, epoch, Timestamp::now()));
    }

    /// Takes the revision of a bookmark of a watch. Watches lag behind, so it only raises the highest revision.
    pub fn observe_bookmark(&self, revision: &str) {
        let Ok(revision) = revision.parse::<u64>() else { return };
        self.update(|history| history.observe_version(revision, Timestamp::now()));
    }

    /// Records that the leader confirmed, after this number of gaps, that no restore is under way.
    pub fn confirm_gaps(&self, gaps: u64) {
        self.update(|history| history.confirmed_gaps = gaps);
    }

    /// Takes the epoch of the AddressState.
    pub fn observe_epoch(&self, epoch: &str) {
        self.update(|history| history.observe_epoch(epoch));
    }

    fn update(&self, change: impl FnOnce(&mut RevisionHistory)) {
        self.history.send_if_modified(|history| {
            let before = history.clone();
            change(history);
            if history.noticed != before.noticed
                && let Some(noticed) = &history.noticed
            {
                warn!(reason = noticed.reason, "etcd was restored from a backup; no new addresses until all nodes have written theirs again");
            }
            *history != before
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_blocks_are_saved_soon() {
        let revisions = RevisionWatch::new(RevisionHistory::default());
        let (mut blocks, mut all) = (revisions.block_changes(), revisions.changes());
        revisions.observe_bookmark("10");
        assert!(!blocks.has_changed().unwrap() && all.has_changed().unwrap());
        revisions.observe("10");
        assert!(!blocks.has_changed().unwrap(), "not the highest");
        revisions.observe("11");
        assert_eq!(*blocks.borrow_and_update(), 11);
        all.mark_unchanged();
        for nonsense in ["", "x", "-1"] {
            revisions.observe(nonsense);
            revisions.observe_current(11, nonsense, "");
        }
        assert!(!all.has_changed().unwrap());
    }

    #[test]
    fn what_was_noticed_is_kept_until_a_newer_epoch_answers_it() {
        let revisions = RevisionWatch::new(RevisionHistory::default());
        revisions.observe_current(0, "100", "e1");
        revisions.observe("90");
        assert_eq!(revisions.noticed(), None);
        revisions.observe_current(100, "20", "e1");
        assert_eq!(revisions.noticed().unwrap().epoch, "e1");
        revisions.observe_epoch("e2");
        assert_eq!((revisions.noticed(), revisions.highest()), (None, 20));
        revisions.confirm_gaps(1);
        assert_eq!(revisions.history().confirmed_gaps, 1);
    }
}
