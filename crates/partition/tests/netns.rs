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
use ferroband_partition::opensm::{LocalOpensmHost, Opensm, OpensmHost, OpensmHostStatus};
use ferroband_partition::{
    Error, Membership, MembershipTable, Ownership, ReconcilerHandle, RequestedPKey, SubnetManager,
    SubnetManagerHealth, run_reconciler,
};
use ferroband_testbed::opensm::{OpensmTestbed, TestbedOpensm};
use futures::future::BoxFuture;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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

/// An opensm of the testbed, which reads its partitions file after SIGHUP.
struct TestbedHost {
    pid: Pid,
    file: LocalOpensmHost,
}

impl OpensmHost for TestbedHost {
    fn name(&self) -> String {
        format!("opensm {}", self.pid)
    }

    fn status(&self) -> OpensmHostStatus {
        OpensmHostStatus::default()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async { Ok(std::fs::read_to_string(self.file.path()).ok()) })
    }

    fn write<'a>(&'a self, desired: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { self.file.update_file(desired).map(drop) })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        let sent = kill(self.pid, Signal::SIGHUP);
        Box::pin(async move {
            sent.map_err(|error| Error::Host { host: self.name(), problem: error.to_string() })
        })
    }
}

fn local_host(manager: &TestbedOpensm) -> Box<dyn OpensmHost> {
    Box::new(TestbedHost { pid: manager.pid(), file: LocalOpensmHost::new(&manager.partitions) })
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
