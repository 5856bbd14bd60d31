//! Keeps the highest revision of etcd that this node has seen in a file, so that a daemon that starts after a restore
//! notices it.

use crate::{
    Error,
    error::{blocking, error_chain},
    install::write_atomically,
};
use ferroband_daemon::{RevisionHistory, RevisionWatch, lengthened};
use ferroband_kernel::Root;
use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::warn;

/// Delay after a change that must be saved soon: a new version of an AddressBlock, a restore, a new epoch. All changes in
/// this time are one write. A daemon that is killed meanwhile writes the entries of its pods again when it starts.
const SAVE_DELAY: Duration = Duration::from_secs(1);
/// Longest time between two writes while only other objects of the cluster change. It is lengthened by up to a half.
const SAVE_INTERVAL: Duration = Duration::from_secs(180);

fn revision_file(root: &Root) -> PathBuf {
    root.state("etcd-revision.json")
}

/// Reads what the previous daemon of this node knew. Without a file, or with one that cannot be read, nothing is known.
pub fn load_revision_history(root: &Root) -> RevisionHistory {
    let path = revision_file(root);
    let read = fs::read(&path).and_then(|content| Ok(serde_json::from_slice(&content)?));
    read.unwrap_or_else(|e: io::Error| {
        if e.kind() != io::ErrorKind::NotFound {
            warn!(path = %path.display(), error = %e, "cannot read the last revision of etcd; asking the leader");
        }
        RevisionHistory::default()
    })
}

/// Saves the history after changes. Never returns.
pub async fn keep_revision_file(root: Root, revisions: Arc<RevisionWatch>) {
    let mut saved = revisions.history();
    let (mut blocks, mut all) = (revisions.block_changes(), revisions.changes());
    loop {
        tokio::select! {
            // Neither can fail, because `revisions` owns the senders.
            _ = blocks.changed() => {}
            _ = all.wait_for(|now| is_important(now, &saved)) => {}
            () = sleep(lengthened(SAVE_INTERVAL)) => {}
        }
        sleep(SAVE_DELAY).await;
        blocks.mark_unchanged();
        let history = revisions.history();
        if history == saved {
            continue;
        }
        saved = history.clone();
        let root = root.clone();
        let written = blocking("saving the last revision of etcd", move || save(&root, &history)).await;
        if let Err(e) = written.and_then(|written| written) {
            warn!(error = %error_chain(&e), "cannot save the last revision of etcd");
        }
    }
}

/// Whether the next daemon must know the difference.
fn is_important(now: &RevisionHistory, saved: &RevisionHistory) -> bool {
    let decisive = |history: &RevisionHistory| {
        (history.noticed.clone(), history.epoch.clone(), history.gaps, history.confirmed_gaps)
    };
    decisive(now) != decisive(saved)
}

fn save(root: &Root, history: &RevisionHistory) -> Result<(), Error> {
    let content = serde_json::to_vec(history).unwrap_or_default();
    write_atomically(&revision_file(root), &mut content.as_slice(), 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[tokio::test]
    async fn the_next_daemon_knows_the_highest_version_of_a_block() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(load_revision_history(&root), RevisionHistory::default());
        fs::create_dir_all(root.state("")).unwrap();
        let revisions = Arc::new(RevisionWatch::new(RevisionHistory::default()));
        let keeping = tokio::spawn(keep_revision_file(root.clone(), revisions.clone()));
        tokio::task::yield_now().await;
        revisions.observe_current(0, "41", "e1");
        revisions.observe("42");
        let saved = async {
            while load_revision_history(&root).revision != 42 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(10), saved).await.unwrap();
        assert_eq!(load_revision_history(&root), revisions.history());
        keeping.abort();
        fs::write(revision_file(&root), "{").unwrap();
        assert_eq!(load_revision_history(&root), RevisionHistory::default(), "as at a first start");
    }
}
