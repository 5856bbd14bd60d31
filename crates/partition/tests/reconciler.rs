//! Tests of `PartitionReconciler` where several events overlap: lists, batches, failures and new desired memberships.
//! Also tests of the times at which the reconcile loop reads and sends.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_model::Guid;
use ferroband_partition::{
    Error, FabricReport, GuidRange, Membership, MembershipState, MembershipTable, NoopSubnetManager,
    Ownership, PartitionBatch, PartitionReconciler, RateLimits, ReconcilerHandle, RequestedPKey,
    SubnetManager, SubnetManagerHealth, run_reconciler,
};
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const PER_PARTITION: RateLimits =
    RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 4 };
const WHOLE_TABLE: RateLimits =
    RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 1 };

fn key(number: u16) -> RequestedPKey {
    RequestedPKey::new(number).unwrap()
}

fn table(members: &[(u16, u64)]) -> MembershipTable {
    members.iter().map(|(k, g)| (key(*k), Guid::new(*g), Membership::Full)).collect()
}

fn ownership() -> Ownership {
    Ownership { guids: (1..100).map(Guid::new).collect(), ..Ownership::default() }
}

fn timed_out() -> Result<(), Error> {
    Err(Error::Timeout { manager: "m".into(), request: "r".into(), timeout: Duration::from_secs(1) })
}

fn report(members: MembershipTable, stale: bool) -> FabricReport {
    FabricReport { members, stale, ..FabricReport::default() }
}

fn list(reconciler: &mut PartitionReconciler, members: &[(u16, u64)]) {
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &report(table(members), false));
}

fn reconciler(desired: &[(u16, u64)], observed: &[(u16, u64)]) -> PartitionReconciler {
    let mut reconciler = PartitionReconciler::default();
    reconciler.set_desired(table(desired), ownership());
    list(&mut reconciler, observed);
    reconciler
}

#[test]
fn nothing_is_sent_before_the_desired_memberships_are_known() {
    let mut reconciler = PartitionReconciler::default();
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &report(table(&[(5, 1)]), true));
    assert!(!reconciler.has_desired());
    // An empty table would remove the members of all pods.
    assert!(reconciler.start_batches(Instant::now(), WHOLE_TABLE).is_empty());
    reconciler.set_desired(table(&[(5, 1)]), ownership());
    assert!(reconciler.has_desired());
    assert_eq!(reconciler.ownership(), &ownership());
    assert_eq!(reconciler.start_batches(Instant::now(), WHOLE_TABLE).len(), 1);
}

#[test]
fn stale_table_is_sent_once_although_no_membership_differs() {
    let mut reconciler = reconciler(&[(5, 1)], &[(5, 1)]);
    let now = Instant::now();
    assert!(reconciler.start_batches(now, WHOLE_TABLE).is_empty(), "nothing differs");
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &report(table(&[(5, 1)]), true));
    let batches = reconciler.start_batches(now, WHOLE_TABLE);
    assert_eq!(batches.len(), 1);
    assert!(batches[0].changes.is_empty());
    assert_eq!(batches[0].desired.iter().collect::<Vec<_>>(), table(&[(5, 1)]).iter().collect::<Vec<_>>());
    reconciler.finish_batch(&batches[0], &Ok(()), now);
    assert!(reconciler.start_batches(now, WHOLE_TABLE).is_empty());
}

#[test]
fn manager_of_whole_tables_gets_one_batch_at_a_time() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let first = reconciler.start_batches(now, WHOLE_TABLE).remove(0);
    reconciler.set_desired(table(&[(5, 1), (6, 2)]), ownership());
    assert!(reconciler.start_batches(now, WHOLE_TABLE).is_empty(), "the first batch is in flight");
    reconciler.finish_batch(&first, &Ok(()), now);
    assert_eq!(reconciler.start_batches(now, WHOLE_TABLE).len(), 1);
}

#[test]
fn other_partitions_are_sent_while_one_is_in_flight() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    assert_eq!(reconciler.start_batches(now, PER_PARTITION).len(), 1);
    let four_more: Vec<_> = (5..=9).map(|number| (number, 1)).collect();
    reconciler.set_desired(table(&four_more), ownership());
    let batches = reconciler.start_batches(now, PER_PARTITION);
    assert_eq!(batches.len(), 3, "at most four are in flight");
}

#[test]
fn list_that_began_during_a_batch_does_not_override_its_result() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    let mark = reconciler.begin_list();
    reconciler.finish_batch(&batch, &Ok(()), now);
    reconciler.record_list(mark, &report(MembershipTable::default(), false));
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
}

#[test]
fn two_lists_at_once_do_not_override_a_newer_result() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let marks = [reconciler.begin_list(), reconciler.begin_list()];
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.finish_batch(&batch, &Ok(()), now);
    for mark in marks {
        reconciler.record_list(mark, &report(MembershipTable::default(), false));
        assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
    }
}

#[test]
fn backoff_ends_with_the_last_desired_member_unless_the_outcome_is_uncertain() {
    let failed = |relist: bool| {
        let mut reconciler = reconciler(&[(5, 1)], &[]);
        let now = Instant::now();
        let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
        reconciler.finish_batch(&batch, &timed_out(), now);
        if relist {
            list(&mut reconciler, &[]);
        }
        (reconciler, now)
    };
    let (mut certain, now) = failed(true);
    certain.set_desired(table(&[(5, 1), (5, 2)]), ownership());
    assert!(certain.next_retry(now).is_some(), "a member is still to be added");
    certain.set_desired(MembershipTable::default(), ownership());
    assert_eq!(certain.next_retry(now), None, "nothing is left to do");
    let (mut uncertain, now) = failed(false);
    uncertain.set_desired(MembershipTable::default(), ownership());
    assert!(uncertain.next_retry(now).is_some(), "the member may have been added");
}

#[test]
fn retry_is_due_when_its_time_has_come() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.finish_batch(&batch, &timed_out(), now);
    let due = now + reconciler.next_retry(now).unwrap();
    assert!(reconciler.start_batches(due - Duration::from_millis(1), PER_PARTITION).is_empty());
    assert_eq!(reconciler.next_retry(due), None);
    assert_eq!(reconciler.start_batches(due, PER_PARTITION).len(), 1);
}

#[test]
fn new_subnet_manager_starts_without_observed_memberships_and_backoff() {
    let mut reconciler = reconciler(&[(5, 1), (6, 1)], &[(6, 1)]);
    let now = Instant::now();
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.finish_batch(&batch, &timed_out(), now);
    reconciler.reset();
    assert_eq!((reconciler.observed(), reconciler.next_retry(now)), (None, None));
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty(), "not before the next list");
    list(&mut reconciler, &[]);
    assert_eq!(reconciler.start_batches(now, PER_PARTITION).len(), 2);
}

#[test]
fn members_that_ferroband_does_not_own_are_foreign() {
    let mut reconciler = PartitionReconciler::default();
    let placed = BTreeSet::from([(key(5), Guid::new(11))]);
    let guids = BTreeSet::from([Guid::new(10)]);
    reconciler.set_desired(MembershipTable::default(), Ownership { guids, placed, ..Ownership::default() });
    list(&mut reconciler, &[(5, 9), (5, 10), (5, 11), (5, 12), (6, 11), (6, 20), (6, 21)]);
    let range = GuidRange::new(Guid::new(10), Guid::new(20)).unwrap();
    let foreign: Vec<_> = reconciler.foreign_members(range).map(|(k, g)| (k.number(), g.value())).collect();
    assert_eq!(foreign, [(5, 12), (6, 11), (6, 20)]);
}

#[test]
fn removal_is_confirmed_only_by_a_list_or_a_response() {
    let guid = Guid::new(1);
    let mut unread = PartitionReconciler::default();
    unread.set_desired(MembershipTable::default(), ownership());
    assert!(!unread.is_removed(key(5), guid) && !unread.is_in_no_partition(guid), "never read");

    let mut reconciler = reconciler(&[(5, 1)], &[(6, 2)]);
    let now = Instant::now();
    assert!(!reconciler.is_removed(key(5), guid), "one answer is not enough");
    list(&mut reconciler, &[(6, 2)]);
    assert!(reconciler.is_removed(key(5), guid) && reconciler.is_in_no_partition(guid));
    assert!(reconciler.is_removed(key(6), guid) && !reconciler.is_removed(key(6), Guid::new(2)));
    assert!(!reconciler.is_in_no_partition(Guid::new(2)));

    let batches = reconciler.start_batches(now, PER_PARTITION);
    assert!(!reconciler.is_removed(key(5), guid) && !reconciler.is_in_no_partition(guid), "being added");
    assert!(reconciler.is_removed(key(5), Guid::new(3)), "another GUID is being added");
    assert!(!reconciler.is_removed(key(6), Guid::new(2)), "the removal is in flight");

    for batch in &batches {
        reconciler.finish_batch(batch, &timed_out(), now);
    }
    assert!(!reconciler.is_removed(key(5), guid) && !reconciler.is_in_no_partition(guid), "uncertain");
    list(&mut reconciler, &[]);
    assert!(reconciler.is_removed(key(5), guid) && !reconciler.is_removed(key(6), Guid::new(2)));
    list(&mut reconciler, &[]);
    assert!(reconciler.is_removed(key(5), guid) && reconciler.is_removed(key(6), Guid::new(2)));
    assert!(reconciler.is_in_no_partition(guid));
}

/// A subnet manager that answers at once and records the times of lists and batches.
#[derive(Default)]
struct RecordingManager {
    interval: Duration,
    lists: Mutex<Vec<Instant>>,
    batches: Mutex<Vec<Instant>>,
}

impl SubnetManager for RecordingManager {
    fn name(&self) -> String {
        "recording".to_owned()
    }

    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>> {
        self.lists.lock().unwrap().push(Instant::now());
        Box::pin(async { Ok(FabricReport::default()) })
    }

    fn apply(&self, _: PartitionBatch) -> BoxFuture<'_, Result<(), Error>> {
        self.batches.lock().unwrap().push(Instant::now());
        Box::pin(async { Ok(()) })
    }

    fn rate_limits(&self) -> RateLimits {
        RateLimits { window: Duration::ZERO, interval: self.interval, max_in_flight: 1 }
    }
}

/// Runs the loop for `time` and returns the health that it reported last. `period` is zero for the default.
async fn run_loop(
    manager: &Arc<RecordingManager>,
    period: Duration,
    time: Duration,
    act: impl AsyncFnOnce(&ReconcilerHandle),
) -> SubnetManagerHealth {
    let (_managers, receiver) = watch::channel::<Arc<dyn SubnetManager>>(manager.clone());
    let (sender, health) = watch::channel(SubnetManagerHealth::default());
    let handle = ReconcilerHandle::default();
    handle.set_list_period(period);
    let task = tokio::spawn(run_reconciler(handle.clone(), receiver, sender));
    tokio::join!(tokio::time::sleep(time), act(&handle));
    task.abort();
    health.borrow().clone()
}

#[tokio::test]
async fn memberships_are_read_at_the_configured_period() {
    let manager = Arc::new(RecordingManager::default());
    let health =
        run_loop(&manager, Duration::from_millis(20), Duration::from_millis(600), async |_| {}).await;
    let lists = manager.lists.lock().unwrap().len();
    assert!((3..=30).contains(&lists), "{lists} lists in 600 ms");
    // The last list may not have been answered yet.
    assert!(health.serial.abs_diff(lists as u64) <= 1, "{} of {lists} reported", health.serial);
    assert!(health.fabric.is_some() && health.problem.is_none());
}

#[tokio::test]
async fn memberships_are_read_every_five_seconds_by_default() {
    let manager = Arc::new(RecordingManager::default());
    run_loop(&manager, Duration::ZERO, Duration::from_millis(300), async |_| {}).await;
    assert_eq!(manager.lists.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn changes_are_sent_at_once_but_not_faster_than_the_limit() {
    let interval = Duration::from_millis(600);
    let manager = Arc::new(RecordingManager { interval, ..RecordingManager::default() });
    let begin = Instant::now();
    run_loop(&manager, Duration::from_secs(60), Duration::from_millis(1900), async |handle| {
        for guid in 1..=3 {
            handle.lock().set_desired(table(&[(5, guid)]), ownership());
            handle.wake();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let batches = manager.batches.lock().unwrap().clone();
    let [first, second] = batches[..] else { panic!("the last two changes are one batch: {batches:?}") };
    assert!(first - begin < interval, "the first change waits for nothing");
    assert!(second - first >= interval, "{:?}", second - first);
}

#[tokio::test]
async fn idle_loop_sends_a_change_when_it_is_woken() {
    let manager = Arc::new(RecordingManager::default());
    run_loop(&manager, Duration::from_secs(60), Duration::from_millis(1200), async |handle| {
        handle.lock().set_desired(table(&[]), ownership());
        tokio::time::sleep(Duration::from_millis(400)).await;
        handle.lock().set_desired(table(&[(5, 1)]), ownership());
        handle.wake();
    })
    .await;
    assert_eq!(manager.batches.lock().unwrap().len(), 1, "long before the next list");
}

#[tokio::test]
async fn without_a_subnet_manager_every_change_succeeds() {
    assert_eq!(NoopSubnetManager.name(), "none");
    let batch = PartitionBatch { changes: Default::default(), desired: Arc::default() };
    assert!(NoopSubnetManager.apply(batch).await.is_ok());
    assert_eq!(NoopSubnetManager.observe().await.unwrap(), FabricReport::default());
}
