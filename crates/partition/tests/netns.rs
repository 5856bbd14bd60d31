//! Tests against a real opensm on ibsim. Requires Debian's opensm, ibsim-utils and infiniband-diags, which
//! `cargo xtask test netns` provides. Does not require root.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

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
    Membership, MembershipTable, Ownership, ReconcilerHandle, RequestedPKey, SubnetManager,
    SubnetManagerHealth, run_reconciler,
};
use ferroband_testbed::opensm::{OpensmTestbed, TestbedOpensm};
use nix::sys::signal::{Signal, kill};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// First GUID used by the tests.
const POOL: u64 = 0x0200_0000_0000_1001;

fn key(number: u16) -> RequestedPKey {
    RequestedPKey::new(number).unwrap()
}

fn consecutive_guids(count: u64) -> Vec<Guid> {
    (0..count).map(|number| Guid::new(POOL + number)).collect()
}

fn table(members: &[(u16, Guid, Membership)]) -> MembershipTable {
    members.iter().map(|(k, guid, kind)| (key(*k), *guid, *kind)).collect()
}

fn local_host(manager: &TestbedOpensm) -> Box<dyn OpensmHost> {
    let pid = manager.pid();
    let signal = move || kill(pid, Signal::SIGHUP).map_err(|error| error.to_string());
    Box::new(LocalOpensmHost::new(format!("opensm {pid}"), &manager.partitions, signal))
}

/// A running reconciler for one or more opensm instances.
struct OpensmReconcilerFixture {
    handle: ReconcilerHandle,
    health: watch::Receiver<SubnetManagerHealth>,
    _managers: watch::Sender<Arc<dyn SubnetManager>>,
}

impl OpensmReconcilerFixture {
    fn start(managers: &[&TestbedOpensm], period: Duration) -> Self {
        let opensm: Arc<dyn SubnetManager> =
            Arc::new(Opensm::new(managers.iter().map(|one| local_host(one)).collect()));
        let (_managers, receiver) = watch::channel(opensm);
        let (sender, health) = watch::channel(SubnetManagerHealth::default());
        let handle = ReconcilerHandle::default();
        handle.set_list_period(period);
        tokio::spawn(run_reconciler(handle.clone(), receiver, sender));
        Self { handle, health, _managers }
    }

    /// Sets the desired memberships of virtual functions: the first 256 GUIDs are those of functions.
    fn set_desired(&self, mut desired: MembershipTable) {
        consecutive_guids(256).into_iter().for_each(|guid| desired.add_function(guid));
        self.set_desired_table(desired);
    }

    fn set_desired_table(&self, desired: MembershipTable) {
        let guids = (POOL..POOL + 0x4000).map(Guid::new).collect();
        self.handle.lock().set_desired(desired, Ownership { guids, ..Ownership::default() });
        self.handle.wake();
    }
}

/// Waits until a port's P_Key table matches, and returns how long it took.
async fn wait_for_pkeys(fabric: &OpensmTestbed, port: Guid, matches: impl Fn(&[u16]) -> bool) -> Duration {
    let start = Instant::now();
    loop {
        let found = fabric.pkey_table(port).unwrap();
        if matches(&found) {
            return start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{port} has {found:04x?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "timeout waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
