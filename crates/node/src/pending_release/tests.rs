use super::retry_pending_releases;
use crate::address::{AssignmentGate, BlockStore, OwnBlocks, create_allocator};
use ferroband_address::{
    AddressAllocation, BlockAddition, BlockCall, BlockWrite, CallOutcome, InMemoryBlocks, IpBlockId, IpSpace,
};
use ferroband_attach::{AttachmentId, PluginType, pending_release::PendingRelease};
use ferroband_kernel::Root;
use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::sleep;

/// A fake block store.
#[derive(Clone, Default)]
struct SharedBlockStore(Arc<Mutex<InMemoryBlocks>>);

impl SharedBlockStore {
    fn used(&self) -> usize {
        self.0.lock().unwrap().blocks().map(|block| block.entries.len()).sum()
    }
}

impl BlockStore for SharedBlockStore {
    async fn execute(&self, node: &str, call: &BlockCall) -> CallOutcome {
        self.0.lock().unwrap().execute(node, call)
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
    let mut entries = BTreeMap::new();
    for (offset, container) in [(1, "c1"), (2, "c2"), (3, "c3")] {
        let entry = AddressAllocation {
            pod: "a/b".into(),
            uid: "u".into(),
            interface: "net1".into(),
            container: container.to_string(),
            node: "n1".into(),
            ..AddressAllocation::default()
        };
        entries.insert(offset, entry);
    }
    let store = SharedBlockStore::default();
    let addition = BlockAddition { id, holder: None, entries, exists: false };
    store.0.lock().unwrap().write(&BlockWrite::Add(addition)).unwrap();
    let blocks = Arc::new(OwnBlocks::new("n1"));
    let (allocator, batch_writer) = create_allocator(blocks, AssignmentGate::open(), store.clone());
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
    assert_eq!(store.used(), 2);

    pending("c2").write(&root).unwrap();
    wait_until(|| !pending("c2").exists(&root)).await;
    assert_eq!(store.used(), 1);
    assert!(root.state("owed").join("broken.json").exists(), "an unreadable file is kept");
    retrying.abort();
}
