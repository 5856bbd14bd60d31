use super::{AddressBlockCache, AllocatorHandle, BlockStore, BlockStoreError, create_allocator};
use crate::Error;
use ferroband_address::{
    AddressAllocation, AddressRelease, AddressRequest, IpBlock, IpBlockId, ResourceVersion,
    whereabouts::WhereaboutsConfig,
};
use ferroband_model::{FaultCode, PodRef};
use futures::future::join_all;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// An in-memory block store with a delay per call and injected failures. The version of a block is the number
/// of writes to the whole store when the block was written.
#[derive(Default)]
struct FlakyBlockStore {
    blocks: Mutex<BTreeMap<String, (IpBlock, ResourceVersion)>>,
    writes: Mutex<Vec<String>>,
    reads: Mutex<usize>,
    /// Names of blocks that exist but cannot be decoded.
    unreadable: Mutex<BTreeSet<String>>,
    /// Failures of the next calls, taken from the end.
    failures: Mutex<Vec<InjectedFailure>>,
    delay: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum InjectedFailure {
    /// The call fails and nothing is written.
    Unavailable,
    /// The block is written, but the call fails.
    ResponseLost,
    Rejected,
}

impl FlakyBlockStore {
    fn slow() -> Arc<Self> {
        Arc::new(Self { delay: Duration::from_millis(20), ..Self::default() })
    }

    fn inject(&self, failures: &[InjectedFailure]) {
        *self.failures.lock().unwrap() = failures.iter().rev().copied().collect();
    }

    fn put(&self, block: &IpBlock) -> ResourceVersion {
        let mut writes = self.writes.lock().unwrap();
        writes.push(block.object_name());
        let version = ResourceVersion(writes.len().to_string());
        self.blocks.lock().unwrap().insert(block.object_name(), (block.clone(), version.clone()));
        version
    }

    fn try_put(
        &self,
        block: &IpBlock,
        expected: Option<&ResourceVersion>,
    ) -> Result<ResourceVersion, BlockStoreError> {
        let failure = self.failures.lock().unwrap().pop();
        let problem = || Error::Task { task: "fake API server", source: None };
        match failure {
            Some(InjectedFailure::Unavailable) => return Err(BlockStoreError::Unavailable(problem())),
            Some(InjectedFailure::Rejected) => return Err(BlockStoreError::Rejected(problem())),
            _ => {}
        }
        let now = self.blocks.lock().unwrap().get(&block.object_name()).map(|(_, version)| version.clone());
        if now.as_ref() != expected {
            return Err(BlockStoreError::Conflict);
        }
        let version = self.put(block);
        match failure {
            Some(_) => Err(BlockStoreError::Unavailable(problem())),
            None => Ok(version),
        }
    }

    fn assigned(&self) -> BTreeMap<IpAddr, String> {
        let blocks = self.blocks.lock().unwrap();
        let entries = blocks.values().flat_map(|(block, _)| {
            block.entries.iter().map(|(offset, entry)| (block.address(*offset), entry.container.clone()))
        });
        entries.collect()
    }
}

impl BlockStore for Arc<FlakyBlockStore> {
    async fn create(&self, block: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        sleep(self.delay).await;
        self.try_put(block, None)
    }

    async fn replace(
        &self,
        block: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        sleep(self.delay).await;
        self.try_put(block, Some(expected))
    }

    async fn get(&self, id: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
        sleep(self.delay).await;
        *self.reads.lock().unwrap() += 1;
        if self.unreadable.lock().unwrap().contains(&id.object_name()) {
            return Err(BlockStoreError::Rejected(Error::Task { task: "fake API server", source: None }));
        }
        if self.failures.lock().unwrap().pop() == Some(InjectedFailure::Unavailable) {
            return Err(BlockStoreError::Unavailable(Error::Task { task: "fake API server", source: None }));
        }
        Ok(self.blocks.lock().unwrap().get(&id.object_name()).cloned())
    }
}

/// Starts the batch writer of a node whose watch delivers nothing.
fn start_writer(name: &str, store: &Arc<FlakyBlockStore>) -> AllocatorHandle {
    let cache = Arc::new(AddressBlockCache::default());
    cache.begin_list();
    for (block, version) in store.blocks.lock().unwrap().values() {
        cache.add_listed(block.clone(), version.clone());
    }
    cache.finish_list();
    let (allocator, writer) = create_allocator(name.to_owned(), cache, store.clone());
    tokio::spawn(writer.run());
    allocator
}

fn requests(pod: usize, range: &str) -> Vec<AddressRequest> {
    let ipam = json!({"type": "whereabouts", "range": range});
    let ipam = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
    let pod_ref = PodRef { namespace: "default".into(), name: format!("p{pod}"), uid: format!("u{pod}") };
    ipam.requests(&pod_ref, false, "net1", &format!("c{pod}"))
}

async fn assign(allocator: &AllocatorHandle, pod: usize) -> IpAddr {
    allocator.assign("network default/ib".into(), requests(pod, "192.168.0.0/24")).await.unwrap()[0].0.addr()
}

fn release(pod: usize) -> AddressRelease {
    AddressRelease { container: format!("c{pod}"), ..AddressRelease::default() }
}

const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn concurrent_requests_share_writes_but_no_address() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    let addresses = join_all((0..64).map(|pod| assign(&allocator, pod))).await;
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 64);
    assert_eq!(store.assigned().len(), 64);
    // Few writes are enough: the first request may be written alone, and the others fill four or five blocks
    // in one batch.
    let writes = store.writes.lock().unwrap().len();
    assert!(writes <= 7, "{writes} writes for 64 addresses");
    assert_eq!(*store.reads.lock().unwrap(), 0);
}

#[tokio::test]
async fn one_request_takes_one_write_and_no_read() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    let first = assign(&allocator, 1).await;
    assert_eq!(*store.writes.lock().unwrap(), ["default-192.168.0.0"]);
    assert_eq!(assign(&allocator, 1).await, first, "repeated request of the same pod");
    assert_eq!(store.writes.lock().unwrap().len(), 1, "already assigned");
    assert!(allocator.release(release(1), TIMEOUT).await);
    assert!(store.assigned().is_empty());
    assert_eq!((store.writes.lock().unwrap().len(), *store.reads.lock().unwrap()), (2, 0));
}

#[tokio::test]
async fn nodes_racing_for_the_same_blocks_never_share_an_address() {
    let store = FlakyBlockStore::slow();
    // Neither node's watch delivers the other's writes, so both plan with outdated blocks.
    let (one, two) = (start_writer("n1", &store), start_writer("n2", &store));
    let first = join_all((0..20).map(|pod| assign(&one, pod)));
    let second = join_all((100..120).map(|pod| assign(&two, pod)));
    let (first, second) = tokio::join!(first, second);
    let all: BTreeSet<_> = first.iter().chain(&second).collect();
    assert_eq!(all.len(), 40, "no address twice");
    assert_eq!(store.assigned().len(), 40);
    assert!(*store.reads.lock().unwrap() > 0, "one node had a conflict and read again");
}

#[tokio::test]
async fn release_and_assignment_in_one_block_take_one_write() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    let first = assign(&allocator, 1).await;
    // The assignment and the release are queued before the batch writer runs, so they are in the same batch.
    let (second, released) = tokio::join!(assign(&allocator, 2), allocator.release(release(1), TIMEOUT));
    assert!(released);
    assert_eq!(second, first, "a freed address can be assigned in the same write");
    assert_eq!(store.writes.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn release_of_another_sandbox_frees_nothing() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    assign(&allocator, 1).await;
    assert!(allocator.release(release(7), TIMEOUT).await, "releasing nothing succeeds");
    assert!(
        allocator
            .release(
                AddressRelease { container: "c1".into(), interface: Some("net2".into()), address: None },
                TIMEOUT
            )
            .await
    );
    assert_eq!(store.assigned().len(), 1);
}

#[tokio::test]
async fn queued_requests_complete_when_the_api_server_returns() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    store.inject(&[InjectedFailure::Unavailable, InjectedFailure::Unavailable, InjectedFailure::Unavailable]);
    assign(&allocator, 1).await;
    store.inject(&[InjectedFailure::Unavailable, InjectedFailure::Unavailable]);
    assert!(allocator.release(release(1), TIMEOUT).await);
    assert!(store.assigned().is_empty());
}

#[tokio::test]
async fn assign_fails_with_a_retriable_fault_while_the_api_server_is_unavailable() {
    let store = FlakyBlockStore::slow();
    let mut allocator = start_writer("n1", &store);
    allocator.assign_timeout = Duration::from_millis(200);
    store.inject(&[InjectedFailure::Unavailable; 50]);
    let fault = allocator.assign("network default/ib".into(), requests(1, "10.0.0.0/24")).await.unwrap_err();
    assert_eq!((fault.code, fault.code.cni_code()), (FaultCode::ApiUnavailable, 11));
    assert!(fault.what.contains("default/ib"), "{fault}");
    assert!(!allocator.release(release(1), Duration::from_millis(100)).await);
}

#[tokio::test(start_paused = true)]
async fn release_frees_an_address_whose_write_response_was_lost() {
    let store = FlakyBlockStore::slow();
    let mut allocator = start_writer("n1", &store);
    allocator.assign_timeout = Duration::from_millis(60);
    // The address is written, but the response is lost and the ADD times out.
    let mut failures = vec![InjectedFailure::ResponseLost];
    failures.extend([InjectedFailure::Unavailable; 3]);
    store.inject(&failures);
    let timed_out = allocator.assign("network default/ib".into(), requests(1, "10.0.0.0/24")).await;
    timed_out.unwrap_err();
    assert_eq!(store.assigned().len(), 1);
    assert!(allocator.release(release(1), TIMEOUT).await);
    assert!(store.assigned().is_empty(), "{:?}", store.assigned());
}

#[tokio::test]
async fn assign_fails_at_once_if_rejected_or_if_the_pool_is_exhausted() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    store.inject(&[InjectedFailure::Rejected]);
    let refused =
        timeout(Duration::from_secs(2), allocator.assign("network a/b".into(), requests(1, "10.0.0.0/24")));
    refused.await.expect("no timeout").unwrap_err();

    // A /30 has two usable addresses, so the third request must fail.
    for pod in [1, 2] {
        allocator.assign("network a/b".into(), requests(pod, "10.9.0.0/30")).await.unwrap();
    }
    let fault = allocator.assign("network a/b".into(), requests(3, "10.9.0.0/30")).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::PoolExhausted);
    assert!(fault.cause.contains("default/p1"), "the holders are named: {fault}");
}

#[tokio::test]
async fn release_cancels_queued_requests_of_its_sandbox() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store);
    let busy = assign(&allocator, 1);
    let cancelled = allocator.assign("network a/b".into(), requests(2, "192.168.0.0/24"));
    let (_, assigned, released) = tokio::join!(busy, cancelled, allocator.release(release(2), TIMEOUT));
    assert!(released);
    assigned.unwrap_err();
    assert_eq!(store.assigned().into_values().collect::<Vec<_>>(), ["c1"]);
}

#[tokio::test(start_paused = true)]
async fn block_that_cannot_be_read_fails_only_the_requests_that_need_it() {
    let store = FlakyBlockStore::slow();
    // The other address of 10.9.0.0/30 is in a block of another node, of which the cache has only a summary.
    let other = start_writer("n2", &store);
    other.assign("network a/b".into(), requests(1, "10.9.0.0/30")).await.unwrap();
    // This block exists, but the watch of this node does not deliver it.
    let cache = Arc::new(AddressBlockCache::for_node("n1"));
    cache.begin_list();
    for (block, version) in store.blocks.lock().unwrap().values() {
        cache.add_listed(block.clone(), version.clone());
    }
    cache.finish_list();
    other.assign("network a/b".into(), requests(2, "192.168.0.0/30")).await.unwrap();
    let unreadable = ["default-10.9.0.0".to_owned(), "default-192.168.0.0".to_owned()];
    store.unreadable.lock().unwrap().extend(unreadable);
    let (allocator, writer) = create_allocator("n1".to_owned(), cache.clone(), store.clone());
    tokio::spawn(writer.run());

    for _ in 0..2 {
        let fault = allocator.assign("network a/b".into(), requests(3, "10.9.0.0/30")).await.unwrap_err();
        assert_eq!(fault.code, FaultCode::PoolExhausted, "{fault}");
        assert!(fault.cause.contains("cannot read AddressBlock default-10.9.0.0"), "{fault}");
    }
    let address = assign(&allocator, 4).await;
    assert!(address >= IpAddr::from([192, 168, 0, 16]), "{address} is from another block");
    assert!(allocator.release(release(4), TIMEOUT).await);

    // The watch delivers the blocks again, after they were corrected.
    store.unreadable.lock().unwrap().clear();
    for (block, version) in store.blocks.lock().unwrap().values() {
        cache.apply_watched(block.clone(), version.clone());
    }
    allocator.assign("network a/b".into(), requests(3, "10.9.0.0/30")).await.unwrap();
}

#[test]
fn late_deletion_does_not_hide_a_newer_own_write() {
    let (id, _) =
        IpBlockId::containing(&ferroband_address::IpSpace::default_space(), "10.0.0.1".parse().unwrap());
    let cache = AddressBlockCache::default();
    cache.record_write(IpBlock::new(id.clone(), None), ResourceVersion("12".into()));
    cache.remove(&id, &ResourceVersion("11".into()));
    assert_eq!(
        cache.with_view(|view| view.iter().count()),
        1,
        "the block was created again after the deletion"
    );
    cache.remove(&id, &ResourceVersion("13".into()));
    assert_eq!(cache.with_view(|view| view.iter().count()), 0);
}

#[test]
fn list_older_than_an_own_write_does_not_hide_it() {
    let cache = AddressBlockCache::default();
    let block = |entries: bool| {
        let (id, _) =
            IpBlockId::containing(&ferroband_address::IpSpace::default_space(), "10.0.0.1".parse().unwrap());
        let mut block = IpBlock::new(id, None);
        if entries {
            let entry = AddressAllocation {
                pod: "a/b".into(),
                uid: "u".into(),
                interface: "net1".into(),
                container: "c1".into(),
                node: "n1".into(),
                ..AddressAllocation::default()
            };
            block.entries.insert(1, entry);
        }
        block
    };
    let used =
        |cache: &AddressBlockCache| cache.with_view(|view| view.iter().map(|(g, _)| g.used()).sum::<u8>());
    cache.record_write(block(true), ResourceVersion("9".into()));
    cache.begin_list();
    cache.add_listed(block(false), ResourceVersion("5".into()));
    cache.finish_list();
    assert_eq!(used(&cache), 1);
    // Once the watch has delivered the write, the next complete listing without the block must remove it from
    // the cache.
    cache.apply_watched(block(true), ResourceVersion("9".into()));
    cache.begin_list();
    cache.finish_list();
    assert_eq!(used(&cache), 0);
}
