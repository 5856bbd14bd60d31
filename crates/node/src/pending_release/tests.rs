use super::retry_pending_releases;
use crate::address::{AddressBlockCache, BlockStore, BlockStoreError, create_allocator};
use ferroband_address::{IpBlock, IpBlockId, IpSpace, ResourceVersion};
use ferroband_attach::{AttachmentId, PluginType, owed::PendingRelease};
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
struct CountingBlockStore(Arc<AtomicUsize>);

impl BlockStore for CountingBlockStore {
    async fn create(&self, _: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        Err(BlockStoreError::Conflict)
    }

    async fn replace(
        &self,
        granule: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        self.0.store(granule.entries.len(), Ordering::SeqCst);
        Ok(ResourceVersion(format!("{}0", expected.0)))
    }

    async fn get(&self, _: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
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
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), "10.0.0.1".parse().unwrap());
    let mut granule = IpBlock::new(id, None);
    for (offset, container) in [(1, "c1"), (2, "c2"), (3, "c3")] {
        let entry =
            json!({"pod": "a/b", "uid": "u", "interface": "net1", "container": container, "node": "n1"});
        granule.entries.insert(offset, serde_json::from_value(entry).unwrap());
    }
    let ledger = Arc::new(AddressBlockCache::default());
    ledger.add_listed(granule, ResourceVersion("1".into()));
    ledger.finish_list();
    let left = CountingBlockStore(Arc::new(AtomicUsize::new(3)));
    let (desk, committer) = create_allocator("n1".into(), ledger, left.clone());
    tokio::spawn(committer.run());

    let owe = |container: &str| {
        PendingRelease::new(&AttachmentId::new(PluginType::Ferroband, container, "eth0"), None)
    };
    owe("c1").write(&root).unwrap();
    fs::write(root.state("owed").join("broken.json"), "{").unwrap();
    let stop = CancellationToken::new();
    let settling = tokio::spawn(retry_pending_releases(
        root.clone(),
        desk,
        std::sync::Arc::new(crate::serve::UnmanagedPartitions),
        stop.clone(),
    ));
    eventually(|| !owe("c1").exists(&root)).await;
    assert_eq!(left.0.load(Ordering::SeqCst), 2);

    owe("c2").write(&root).unwrap();
    eventually(|| !owe("c2").exists(&root)).await;
    assert_eq!(left.0.load(Ordering::SeqCst), 1);
    assert!(root.state("owed").join("broken.json").exists(), "what cannot be read is kept");
    stop.cancel();
    settling.await.unwrap().unwrap();
}
