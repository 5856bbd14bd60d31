use super::keep_settled;
use crate::address::{Ledger, Store, StoreError, open};
use ferroband_address::{Granule, GranuleId, Space, Version};
use ferroband_attach::{Key, Role, owed::Owed};
use ferroband_kernel::Root;
use serde_json::json;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// A store that only counts.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Store for Counting {
    async fn create(&self, _: &Granule) -> Result<Version, StoreError> {
        Err(StoreError::Conflict)
    }

    async fn replace(&self, granule: &Granule, expected: &Version) -> Result<Version, StoreError> {
        self.0.store(granule.entries.len(), Ordering::SeqCst);
        Ok(Version(format!("{}0", expected.0)))
    }

    async fn get(&self, _: &GranuleId) -> Result<Option<(Granule, Version)>, StoreError> {
        Ok(None)
    }
}

async fn eventually(what: impl Fn() -> bool) {
    for _ in 0..250 {
        if what() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not happen");
}

#[tokio::test]
async fn debts_of_before_and_of_later_are_settled_and_their_files_go() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let (id, _) = GranuleId::containing(&Space::default_space(), "10.0.0.1".parse().unwrap());
    let mut granule = Granule::new(id, None);
    for (offset, container) in [(1, "c1"), (2, "c2"), (3, "c3")] {
        let entry =
            json!({"pod": "a/b", "uid": "u", "interface": "net1", "container": container, "node": "n1"});
        granule.entries.insert(offset, serde_json::from_value(entry).unwrap());
    }
    let ledger = Arc::new(Ledger::default());
    ledger.listed(granule, Version("1".into()));
    ledger.list_ends();
    let left = Counting(Arc::new(AtomicUsize::new(3)));
    let (desk, committer) = open("n1".into(), ledger, left.clone());
    tokio::spawn(committer.run());

    let owe = |container: &str| Owed::new(&Key::new(Role::Ferroband, container, "eth0"), None);
    owe("c1").write(&root).unwrap();
    fs::write(root.state("owed").join("broken.json"), "{").unwrap();
    let stop = CancellationToken::new();
    let settling = tokio::spawn(keep_settled(
        root.clone(),
        desk,
        std::sync::Arc::new(crate::serve::Unmanaged),
        stop.clone(),
    ));
    eventually(|| !owe("c1").stands(&root)).await;
    assert_eq!(left.0.load(Ordering::SeqCst), 2);

    owe("c2").write(&root).unwrap();
    eventually(|| !owe("c2").stands(&root)).await;
    assert_eq!(left.0.load(Ordering::SeqCst), 1);
    assert!(root.state("owed").join("broken.json").exists(), "what cannot be read is kept");
    stop.cancel();
    settling.await.unwrap().unwrap();
}
