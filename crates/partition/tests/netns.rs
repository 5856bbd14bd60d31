//! A real opensm over ibsim. Needs Debian's opensm, ibsim-utils and infiniband-diags, which `cargo xtask test netns` brings;
//! no root.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[path = "netns/churn.rs"]
mod churn;
#[path = "netns/safety.rs"]
mod safety;
#[path = "netns/tables.rs"]
mod tables;
#[path = "netns/takeover.rs"]
mod takeover;

use ferroband_model::Guid;
use ferroband_partition::opensm::{LocalOpensmHost, Opensm, OpensmHost};
use ferroband_partition::{
    Membership, MembershipTable, Ownership, PKeyBase, ReconcilerHandle, SubnetManager, SubnetManagerHealth,
    run_reconciler,
};
use ferroband_testbed::opensm::{OpensmTestbed, TestbedOpensm};
use nix::sys::signal::{Signal, kill};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The first GUID of the tests' pool.
const POOL: u64 = 0x0200_0000_0000_1001;

fn key(number: u16) -> PKeyBase {
    PKeyBase::new(number).unwrap()
}

/// So many neighbouring GUIDs.
fn consecutive_guids(count: u64) -> Vec<Guid> {
    (0..count).map(|number| Guid::new(POOL + number)).collect()
}

fn table(members: &[(u16, Guid, Membership)]) -> MembershipTable {
    members.iter().map(|(k, guid, kind)| (key(*k), *guid, *kind)).collect()
}

/// The host of a manager, as a programmer sees it.
fn local_host(manager: &TestbedOpensm) -> Box<dyn OpensmHost> {
    let pid = manager.pid();
    let signal = move || kill(pid, Signal::SIGHUP).map_err(|error| error.to_string());
    Box::new(LocalOpensmHost::new(format!("opensm {pid}"), &manager.partitions, signal))
}

/// A programmer at work on these managers.
struct OpensmReconcilerFixture {
    running: ReconcilerHandle,
    health: watch::Receiver<SubnetManagerHealth>,
    _managers: watch::Sender<Arc<dyn SubnetManager>>,
}

impl OpensmReconcilerFixture {
    fn start(managers: &[&TestbedOpensm], period: Duration) -> Self {
        let opensm: Arc<dyn SubnetManager> =
            Arc::new(Opensm::new(managers.iter().map(|one| local_host(one)).collect()));
        let (_managers, receiver) = watch::channel(opensm);
        let (told, health) = watch::channel(SubnetManagerHealth::default());
        let running = ReconcilerHandle::default();
        running.set_list_period(period);
        tokio::spawn(run_reconciler(running.clone(), receiver, told));
        Self { running, health, _managers }
    }

    fn set_desired(&self, wanted: MembershipTable) {
        let guids = (POOL..POOL + 0x4000).map(Guid::new).collect();
        self.running.lock().set_desired(wanted, Ownership { guids, ..Ownership::default() });
        self.running.wake();
    }
}

/// Waits until a port's table is so, and tells how long that took.
async fn wait_for_pkeys(bed: &OpensmTestbed, port: Guid, wanted: impl Fn(&[u16]) -> bool) -> Duration {
    let begun = Instant::now();
    loop {
        let found = bed.pkey_table(port).unwrap();
        if wanted(&found) {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{port} has {found:04x?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
