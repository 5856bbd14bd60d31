//! The UFM client and the loop around it, against a simulated UFM over HTTPS.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod calls;
mod outage;
mod scale;
mod trouble;
mod trust;

use ferroband_model::Guid;
use ferroband_partition::{
    Health, Key, Membership, Owned, Plugin, Running, Settings, SubnetManager, Table, run, ufm::Ufm,
};
use ferroband_testbed::ufm::Simulator;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A programmer at work against a manager.
struct Desk {
    running: Running,
    managers: watch::Sender<Arc<dyn SubnetManager>>,
    health: watch::Receiver<Health>,
}

impl Desk {
    fn open(manager: Arc<dyn SubnetManager>) -> Self {
        Self::with_period(manager, Duration::from_secs(5))
    }

    fn with_period(manager: Arc<dyn SubnetManager>, period: Duration) -> Self {
        let (managers, receiver) = watch::channel(manager);
        let (told, health) = watch::channel(Health::default());
        let running = Running::default();
        running.set_period(period);
        tokio::spawn(run(running.clone(), receiver, told));
        Self { running, managers, health }
    }

    fn want(&self, members: &[(u16, u64)]) {
        self.want_table(members.iter().map(|(k, g)| (key(*k), Guid::new(*g), Membership::Full)).collect());
    }

    fn want_table(&self, table: Table) {
        // All GUIDs of the tests' pool are claimed.
        let guids = (POOL..POOL + 0x400).map(Guid::new).collect();
        self.running.lock().want(table, Owned { guids, ..Owned::default() });
        self.running.wake();
    }

    async fn settled(&self) {
        eventually("wanted and seen are the same", || {
            let mut programmer = self.running.lock();
            programmer.seen().is_some() && programmer.differences().is_empty()
        })
        .await;
    }
}

/// The first GUID of the tests' pool.
const POOL: u64 = 0x0200_0000_0000_0000;

fn key(number: u16) -> Key {
    Key::new(number).unwrap()
}

fn settings(variables: &BTreeMap<String, String>) -> ferroband_partition::ufm::Settings {
    match Settings::read(|name| variables.get(name).cloned()).unwrap().plugin {
        Plugin::Ufm(settings) => *settings,
        other => panic!("{other:?}"),
    }
}

fn ufm(simulator: &Simulator) -> Arc<dyn SubnetManager> {
    Arc::new(Ufm::new(&settings(&simulator.variables())).unwrap().with_patience(Duration::from_secs(2)))
}

/// The members of a partition at the simulator.
fn members(simulator: &Simulator, key: u16) -> Vec<u64> {
    let partitions = simulator.partitions();
    partitions.get(&key).map(|members| members.keys().map(|guid| guid.value()).collect()).unwrap_or_default()
}

async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
