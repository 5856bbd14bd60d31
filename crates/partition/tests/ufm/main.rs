//! Tests of the UFM client and the reconcile loop with a simulated UFM over HTTPS.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod faults;
mod outage;
mod requests;
mod scale;
mod tls;

use ferroband_model::Guid;
use ferroband_partition::{
    Membership, MembershipTable, Ownership, PartitionSettings, ReconcilerHandle, RequestedPKey, SmPlugin,
    SubnetManager, SubnetManagerHealth, run_reconciler, ufm::Ufm,
};
use ferroband_testbed::ufm::UfmSimulator;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A running reconciler for one UFM at a time.
struct UfmReconcilerFixture {
    handle: ReconcilerHandle,
    managers: watch::Sender<Arc<dyn SubnetManager>>,
    health: watch::Receiver<SubnetManagerHealth>,
}

impl UfmReconcilerFixture {
    fn start(manager: Arc<dyn SubnetManager>) -> Self {
        Self::start_with_period(manager, Duration::from_secs(5))
    }

    fn start_with_period(manager: Arc<dyn SubnetManager>, period: Duration) -> Self {
        let (managers, receiver) = watch::channel(manager);
        let (sender, health) = watch::channel(SubnetManagerHealth::default());
        let handle = ReconcilerHandle::default();
        handle.set_list_period(period);
        tokio::spawn(run_reconciler(handle.clone(), receiver, sender));
        Self { handle, managers, health }
    }

    fn set_desired(&self, members: &[(u16, u64)]) {
        self.set_desired_table(
            members.iter().map(|(k, g)| (key(*k), Guid::new(*g), Membership::Full)).collect(),
        );
    }

    fn set_desired_table(&self, mut table: MembershipTable) {
        // Ferroband owns all GUIDs that the tests use. They are those of virtual functions.
        let guids: BTreeSet<Guid> = (POOL..POOL + 0x400).map(Guid::new).collect();
        guids.iter().for_each(|guid| table.add_function(*guid));
        self.handle.lock().set_desired(table, Ownership { guids, ..Ownership::default() });
        self.handle.wake();
    }

    async fn wait_converged(&self) {
        wait_until("desired and observed are equal", || {
            let mut reconciler = self.handle.lock();
            reconciler.observed().is_some() && reconciler.pending_changes().is_empty()
        })
        .await;
    }
}

/// First GUID used by the tests.
const POOL: u64 = 0x0200_0000_0000_0000;

fn key(number: u16) -> RequestedPKey {
    RequestedPKey::new(number).unwrap()
}

fn settings(variables: &BTreeMap<String, String>) -> ferroband_partition::ufm::UfmClientSettings {
    match PartitionSettings::read(|name| variables.get(name).cloned()).unwrap().plugin {
        SmPlugin::Ufm(settings) => *settings,
        other => panic!("{other:?}"),
    }
}

fn ufm(simulator: &UfmSimulator) -> Arc<dyn SubnetManager> {
    Arc::new(Ufm::new(&settings(&simulator.client_env())).unwrap().with_timeout(Duration::from_secs(2)))
}

/// GUIDs of the members of a partition in the simulated UFM.
fn members(simulator: &UfmSimulator, key: u16) -> Vec<u64> {
    let partitions = simulator.partitions();
    partitions.get(&key).map(|members| members.keys().map(|guid| guid.value()).collect()).unwrap_or_default()
}

async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "timeout waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
