use super::retry_pending_releases;
use crate::address::{AddressBlockCache, BlockStore, BlockStoreError, create_allocator};
use ferroband_address::{AddressAllocation, IpBlock, IpBlockId, IpSpace, ResourceVersion};
use ferroband_attach::{AttachmentId, PluginType, pending_release::PendingRelease};
use ferroband_kernel::Root;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// A fake block store that only records how many entries the last written block had.
#[derive(Clone, Default)]
struct CountingBlockStore(Arc<AtomicUsize>);

impl BlockStore for CountingBlockStore {
    async fn create(&self, _: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        Err(BlockStoreError::Conflict)
    }

    async fn replace(
        &self,
        block: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        self.0.store(block.entries.len(), Ordering::SeqCst);
        Ok(ResourceVersion(format!("{}0", expected.0)))
    }

    async fn get(&self, _: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
        Ok(None)
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..250 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("timed out waiting for the condition");
}

#[tokio::test]
async fn pending_releases_are_completed_and_their_files_removed() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), "10.0.0.1".parse().unwrap());
    let mut block = IpBlock::new(id, None);
    for (offset, container) in [(1, "c1"), (2, "c2"), (3, "c3")] {
        let entry = AddressAllocation {
            pod: "a/b".into(),
            uid: "u".into(),
            interface: "net1".into(),
            container: container.to_string(),
            node: "n1".into(),
            ..AddressAllocation::default()
        };
        block.entries.insert(offset, entry);
    }
    let blocks = Arc::new(AddressBlockCache::default());
    blocks.add_listed(block, ResourceVersion("1".into()));
    blocks.finish_list();
    let store = CountingBlockStore(Arc::new(AtomicUsize::new(3)));
    let (allocator, batch_writer) = create_allocator("n1".into(), blocks, store.clone());
    tokio::spawn(batch_writer.run());

    let pending = |container: &str| {
        PendingRelease::new(&AttachmentId::new(PluginType::Ferroband, container, "eth0"), None)
    };
    pending("c1").write(&root).unwrap();
    fs::write(root.state("owed").join("broken.json"), "{").unwrap();
    let retrying = tokio::spawn(retry_pending_releases(
        root.clone(),
        allocator,
        std::sync::Arc::new(ferroband_testbed::UnmanagedPartitions),
    ));
    wait_until(|| !pending("c1").exists(&root)).await;
    assert_eq!(store.0.load(Ordering::SeqCst), 2);

    pending("c2").write(&root).unwrap();
    wait_until(|| !pending("c2").exists(&root)).await;
    assert_eq!(store.0.load(Ordering::SeqCst), 1);
    assert!(root.state("owed").join("broken.json").exists(), "an unreadable file is kept");
    retrying.abort();
}
