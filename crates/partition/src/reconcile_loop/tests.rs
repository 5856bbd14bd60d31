use super::*;
use crate::{Membership, MembershipTable, Ownership, PartitionBatch, RateLimits, RequestedPKey};
use ferroband_model::Guid;
use futures::future::BoxFuture;
use std::sync::atomic::AtomicUsize;

/// A subnet manager that applies changes to a table, or misbehaves.
#[derive(Default)]
struct ScriptedManager {
    table: Mutex<MembershipTable>,
    /// Number of the next batches that never get a response.
    hangs: AtomicUsize,
    /// How long a read of the memberships takes, in milliseconds.
    list_millis: AtomicU64,
    lists: AtomicUsize,
}

fn take_one(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl SubnetManager for ScriptedManager {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>> {
        Box::pin(async {
            self.lists.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(self.list_millis.load(Ordering::Relaxed))).await;
            Ok(FabricReport { members: self.table.lock().clone(), ..FabricReport::default() })
        })
    }

    fn apply(&self, batch: PartitionBatch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if take_one(&self.hangs) {
                std::future::pending::<()>().await;
            }
            let mut table = self.table.lock();
            for (key, change) in &batch.changes {
                change.add.iter().for_each(|(guid, membership)| table.set(*key, *guid, *membership));
                change.remove.iter().for_each(|guid| table.remove(*key, *guid));
            }
            Ok(())
        })
    }

    fn rate_limits(&self) -> RateLimits {
        RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 4 }
    }
}

/// A running loop with one desired membership.
struct LoopFixture {
    handle: ReconcilerHandle,
    managers: watch::Sender<Arc<dyn SubnetManager>>,
    _health: watch::Receiver<SubnetManagerHealth>,
}

fn member() -> (RequestedPKey, Guid) {
    (RequestedPKey::new(5).unwrap(), Guid::new(1))
}

fn start(manager: &Arc<ScriptedManager>, period: Duration) -> LoopFixture {
    let (key, guid) = member();
    let (managers, receiver) = watch::channel(manager.clone() as Arc<dyn SubnetManager>);
    let (sender, _health) = watch::channel(SubnetManagerHealth::default());
    let handle = ReconcilerHandle::default();
    handle.set_list_period(period);
    let table = MembershipTable::from_iter([(key, guid, Membership::Full)]);
    handle.lock().set_desired(table, Ownership { guids: [guid].into(), ..Ownership::default() });
    tokio::spawn(run_reconciler(handle.clone(), receiver, sender));
    LoopFixture { handle, managers, _health }
}

async fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "timeout waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn has_member(manager: &ScriptedManager) -> bool {
    let (key, guid) = member();
    manager.table.lock().get(key, guid).is_some()
}

// Case: partitions 88
#[tokio::test]
async fn change_in_flight_is_sent_again_after_the_subnet_manager_settings_change() {
    let before = Arc::new(ScriptedManager { hangs: AtomicUsize::new(1), ..ScriptedManager::default() });
    let fixture = start(&before, Duration::from_secs(1));
    wait_until("the change is in flight", || before.hangs.load(Ordering::Relaxed) == 0).await;
    // The password was rotated: a new client of the same subnet manager replaces the old one.
    let after = Arc::new(ScriptedManager::default());
    fixture.managers.send_replace(after.clone());
    wait_until("the change is sent to the new manager", || has_member(&after)).await;
    let (key, guid) = member();
    wait_until("the membership is programmed", || {
        fixture.handle.lock().membership_state(key, guid) == crate::MembershipState::Programmed
    })
    .await;
}

// Case: partitions 2
#[tokio::test]
async fn slow_list_is_repeated_after_ten_times_its_duration() {
    let manager =
        Arc::new(ScriptedManager { list_millis: AtomicU64::new(200), ..ScriptedManager::default() });
    let _fixture = start(&manager, Duration::from_millis(50));
    tokio::time::sleep(Duration::from_millis(1800)).await;
    assert_eq!(manager.lists.load(Ordering::Relaxed), 1, "the next list starts after 200 ms + 2 s");
    wait_until("the next list", || manager.lists.load(Ordering::Relaxed) == 2).await;
}

#[tokio::test]
async fn one_slow_list_does_not_delay_the_next_one() {
    let manager = Arc::new(ScriptedManager::default());
    let lists = || manager.lists.load(Ordering::Relaxed);
    let _fixture = start(&manager, Duration::from_millis(50));
    wait_until("a fast list", || lists() == 2).await;
    // The subnet manager is away for a second, and then answers.
    manager.list_millis.store(1000, Ordering::Relaxed);
    wait_until("a slow list", || lists() == 3).await;
    manager.list_millis.store(0, Ordering::Relaxed);
    let start = Instant::now();
    wait_until("the next list", || lists() == 4).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
