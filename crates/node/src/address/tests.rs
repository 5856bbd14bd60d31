use super::{AllocatorHandle, AssignmentGate, BlockStore, OwnBlocks, create_allocator};
use ferroband_address::{
    AddressAllocation, AddressRelease, AddressRequest, BlockAddition, BlockCall, BlockWrite, CallOutcome,
    InMemoryBlocks, IpBlockId, IpSpace, whereabouts::WhereaboutsConfig,
};
use ferroband_api::ferroband::{AddressStateStatus, BlockedAddressRange, ImportPhase};
use ferroband_model::{Fault, FaultCode, PodRef};
use futures::future::join_all;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// An in-memory block store with a delay per call and injected failures.
#[derive(Default)]
struct FlakyBlockStore {
    blocks: Mutex<InMemoryBlocks>,
    writes: Mutex<Vec<String>>,
    /// All calls except writes and the list of own blocks at the start.
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

    fn assigned(&self) -> BTreeMap<IpAddr, String> {
        let blocks = self.blocks.lock().unwrap();
        let entries = blocks.blocks().flat_map(|block| {
            block.entries.iter().map(|(offset, entry)| (block.address(*offset), entry.container.clone()))
        });
        entries.collect()
    }
}

impl BlockStore for Arc<FlakyBlockStore> {
    async fn execute(&self, node: &str, call: &BlockCall) -> CallOutcome {
        sleep(self.delay).await;
        let failure = self.failures.lock().unwrap().pop();
        let fault = || Fault::new(FaultCode::ApiUnavailable, "block", "rejected", "none");
        match failure {
            Some(InjectedFailure::Unavailable) => return CallOutcome::Unavailable,
            Some(InjectedFailure::Rejected) => return CallOutcome::Rejected(fault()),
            _ => {}
        }
        if let BlockCall::Read(id) = call
            && self.unreadable.lock().unwrap().contains(&id.object_name())
        {
            return CallOutcome::Rejected(fault());
        }
        let outcome = self.blocks.lock().unwrap().execute(node, call);
        match (call, &outcome) {
            (BlockCall::Write(write), CallOutcome::Block(_)) => {
                self.writes.lock().unwrap().push(write.id().object_name());
            }
            (BlockCall::Write(_) | BlockCall::ListOwn, _) => {}
            _ => *self.reads.lock().unwrap() += 1,
        }
        if failure.is_some() { CallOutcome::Unavailable } else { outcome }
    }
}

/// Starts the batch writer of a node.
async fn start_writer(name: &str, store: &Arc<FlakyBlockStore>) -> AllocatorHandle {
    start_gated_writer(name, store, AssignmentGate::open()).await
}

async fn start_gated_writer(
    name: &str,
    store: &Arc<FlakyBlockStore>,
    gate: AssignmentGate,
) -> AllocatorHandle {
    let blocks = Arc::new(OwnBlocks::new(name));
    let (allocator, writer) = create_allocator(blocks.clone(), gate, store.clone());
    tokio::spawn(writer.run());
    blocks.wait_synced().await;
    allocator
}

fn requests(pod: usize, range: &str) -> Vec<AddressRequest> {
    let ipam = json!({"type": "whereabouts", "range": range});
    let ipam = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
    let pod_ref = PodRef { namespace: "default".into(), name: format!("p{pod}"), uid: format!("u{pod}") };
    ipam.requests(&pod_ref, false, "net1", &format!("c{pod}"))
}

async fn assign(allocator: &AllocatorHandle, pod: usize) -> IpAddr {
    assign_from(allocator, pod, "192.168.0.0/24").await
}

async fn assign_from(allocator: &AllocatorHandle, pod: usize, range: &str) -> IpAddr {
    allocator.assign("network default/ib".into(), requests(pod, range)).await.unwrap()[0].0.addr()
}

fn release(pod: usize) -> AddressRelease {
    AddressRelease { container: format!("c{pod}"), ..AddressRelease::default() }
}

const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn concurrent_requests_share_writes_but_no_address() {
    let store = FlakyBlockStore::slow();
    let allocator = start_writer("n1", &store).await;
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
    let allocator = start_writer("n1", &store).await;
    let first = assign(&allocator, 1).await;
    assert_eq!(*store.writes.lock().unwrap(), ["default-192.168.0.0"]);
    assert_eq!(*store.reads.lock().unwrap(), 0);
    assert_eq!(assign(&allocator, 1).await, first, "repeated request of the same pod");
    let calls = || (store.writes.lock().unwrap().len(), *store.reads.lock().unwrap());
    assert_eq!(calls(), (1, 1), "already assigned, which a read confirms");
    assert!(allocator.release(release(1), TIMEOUT).await);
    assert!(store.assigned().is_empty());
    assert_eq!(calls(), (2, 1));
}

#[tokio::test]
async fn nodes_racing_for_the_same_blocks_never_share_an_address() {
    let store = FlakyBlockStore::slow();
    // Neither node knows the other's writes.
    let (one, two) = (start_writer("n1", &store).await, start_writer("n2", &store).await);
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
    let allocator = start_writer("n1", &store).await;
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
    let allocator = start_writer("n1", &store).await;
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
    let allocator = start_writer("n1", &store).await;
    store.inject(&[InjectedFailure::Unavailable, InjectedFailure::Unavailable, InjectedFailure::Unavailable]);
    assign(&allocator, 1).await;
    store.inject(&[InjectedFailure::Unavailable, InjectedFailure::Unavailable]);
    assert!(allocator.release(release(1), TIMEOUT).await);
    assert!(store.assigned().is_empty());
}

#[tokio::test]
async fn assign_fails_with_a_retriable_fault_while_the_api_server_is_unavailable() {
    let store = FlakyBlockStore::slow();
    let mut allocator = start_writer("n1", &store).await;
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
    let mut allocator = start_writer("n1", &store).await;
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
    let allocator = start_writer("n1", &store).await;
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
    let allocator = start_writer("n1", &store).await;
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
    let other = start_writer("n2", &store).await;
    other.assign("network a/b".into(), requests(1, "10.9.0.0/30")).await.unwrap();
    other.assign("network a/b".into(), requests(2, "192.168.0.0/30")).await.unwrap();
    let unreadable = ["default-10.9.0.0".to_owned(), "default-192.168.0.0".to_owned()];
    store.unreadable.lock().unwrap().extend(unreadable);
    let allocator = start_writer("n1", &store).await;

    for _ in 0..2 {
        let fault = allocator.assign("network a/b".into(), requests(3, "10.9.0.0/30")).await.unwrap_err();
        assert_eq!(fault.code, FaultCode::PoolExhausted, "{fault}");
        assert!(fault.cause.contains("cannot read AddressBlock default-10.9.0.0"), "{fault}");
    }
    let address = assign(&allocator, 4).await;
    assert!(address >= IpAddr::from([192, 168, 0, 16]), "{address} is from another block");
    assert!(allocator.release(release(4), TIMEOUT).await);

    // The objects are corrected.
    store.unreadable.lock().unwrap().clear();
    sleep(Duration::from_secs(6)).await;
    allocator.assign("network a/b".into(), requests(3, "10.9.0.0/30")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_the_gate_until_its_deadline() {
    let store = FlakyBlockStore::slow();
    let gate = AssignmentGate::default();
    let allocator = start_gated_writer("n1", &store, gate.clone()).await;
    let fault = allocator.assign("network a/b".into(), requests(1, "10.0.0.0/24")).await.unwrap_err();
    assert!(fault.cause.contains("API server is not connected"), "{fault}");
    // Addresses that pods have already are written, and releases too.
    allocator.restore("sandbox c2".into(), requests(2, "10.0.0.0/24")).await.unwrap();
    assert_eq!(
        assign_from(&allocator, 2, "10.0.0.0/24").await,
        IpAddr::from([10, 0, 0, 1]),
        "it has it already"
    );
    assert!(allocator.release(release(2), TIMEOUT).await);
    assert!(store.assigned().is_empty());

    let waiting = assign_from(&allocator, 3, "10.0.0.0/24");
    let opening = async {
        sleep(Duration::from_secs(3)).await;
        let open = AssignmentGate::open().changes().borrow().clone();
        gate.update(|inputs| *inputs = open);
    };
    let begin = tokio::time::Instant::now();
    let (address, ()) = tokio::join!(waiting, opening);
    assert_eq!(address, IpAddr::from([10, 0, 0, 1]));
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn own_blocks_are_listed_again_after_a_write_with_an_unknown_result() {
    let store = FlakyBlockStore::slow();
    let blocks = Arc::new(OwnBlocks::new("n1"));
    let (allocator, writer) = create_allocator(blocks.clone(), AssignmentGate::open(), store.clone());
    writer.node_count().store(1, Ordering::Relaxed);
    tokio::spawn(writer.run());
    assert_eq!(assign(&allocator, 1).await, IpAddr::from([192, 168, 0, 1]));
    store.inject(&[InjectedFailure::Unavailable]);
    assign(&allocator, 2).await;
    // The API server executes the lost write much later, at another address.
    let late = BlockCall::Write(BlockWrite::Add(late_addition()));
    store.blocks.lock().unwrap().execute("n1", &late);
    assert_eq!(blocks.own_allocations().len(), 2);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(blocks.own_allocations().len(), 3, "found by the node's label");
}

fn late_addition() -> BlockAddition {
    let space = IpSpace::default_space();
    let (id, offset) = IpBlockId::containing(&space, [192, 168, 0, 100].into());
    let entry = AddressAllocation {
        pod: "default/p2".into(),
        uid: "u2".into(),
        interface: "net1".into(),
        container: "c2".into(),
        node: "n1".into(),
        ..AddressAllocation::default()
    };
    BlockAddition { id, holder: None, entries: [(offset, entry)].into(), exists: false }
}

/// Sets the status of the gate's AddressState.
fn set_status(gate: &AssignmentGate, change: impl FnOnce(&mut AddressStateStatus)) {
    gate.update(|inputs| {
        let mut state = inputs.state.as_deref().cloned().unwrap_or_default();
        change(state.status.get_or_insert_default());
        inputs.state = Some(Arc::new(state));
    });
}

#[tokio::test(start_paused = true)]
async fn blocked_range_is_not_assigned_and_the_rest_of_the_pool_is() {
    let store = FlakyBlockStore::slow();
    let gate = AssignmentGate::open();
    let allocator = start_gated_writer("n1", &store, gate.clone()).await;
    let block = |range: &str| BlockedAddressRange { range: range.into(), reason: "x".into(), space: None };
    set_status(&gate, |status| status.blocked_ranges = vec![block("10.0.0.0-10.0.0.9")]);
    assert_eq!(assign_from(&allocator, 1, "10.0.0.0/28").await, IpAddr::from([10, 0, 0, 10]));
    set_status(&gate, |status| status.blocked_ranges.push(block("10.0.0.8-10.0.0.15")));
    let fault = allocator.assign("network a/b".into(), requests(2, "10.0.0.0/28")).await.unwrap_err();
    assert!(fault.what.contains("10.0.0."), "{fault}");
    set_status(&gate, |status| status.blocked_ranges = vec![block("unreadable")]);
    allocator.assign("network a/b".into(), requests(2, "10.0.0.0/28")).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn entries_that_the_leader_imports_for_the_node_are_found() {
    let store = FlakyBlockStore::slow();
    let gate = AssignmentGate::open();
    set_status(&gate, |status| status.imports.whereabouts = ImportPhase::Pending);
    let blocks = Arc::new(OwnBlocks::new("n1"));
    let (_allocator, writer) = create_allocator(blocks.clone(), gate.clone(), store.clone());
    tokio::spawn(writer.run());
    blocks.wait_synced().await;
    store.blocks.lock().unwrap().execute("leader", &BlockCall::Write(BlockWrite::Add(late_addition())));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(blocks.own_allocations().len(), 0);
    set_status(&gate, |status| status.imports.whereabouts = ImportPhase::Complete);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(blocks.own_allocations().len(), 1);
}
