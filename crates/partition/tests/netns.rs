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
use ferroband_partition::opensm::{Host, Local, Opensm};
use ferroband_partition::{Health, Key, Membership, Owned, Running, SubnetManager, Table, run};
use ferroband_testbed::opensm::{Bed, Manager};
use nix::sys::signal::{Signal, kill};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The first GUID of the tests' pool.
const POOL: u64 = 0x0200_0000_0000_1001;

fn key(number: u16) -> Key {
    Key::new(number).unwrap()
}

/// So many neighbouring GUIDs.
fn ports(count: u64) -> Vec<Guid> {
    (0..count).map(|number| Guid::new(POOL + number)).collect()
}

fn table(members: &[(u16, Guid, Membership)]) -> Table {
    members.iter().map(|(k, guid, kind)| (key(*k), *guid, *kind)).collect()
}

/// The host of a manager, as a programmer sees it.
fn host(manager: &Manager) -> Box<dyn Host> {
    let pid = manager.pid();
    let signal = move || kill(pid, Signal::SIGHUP).map_err(|error| error.to_string());
    Box::new(Local::new(format!("opensm {pid}"), &manager.partitions, signal))
}

/// A programmer at work on these managers.
struct Desk {
    running: Running,
    health: watch::Receiver<Health>,
    _managers: watch::Sender<Arc<dyn SubnetManager>>,
}

impl Desk {
    fn open(managers: &[&Manager], period: Duration) -> Self {
        let opensm: Arc<dyn SubnetManager> =
            Arc::new(Opensm::new(managers.iter().map(|one| host(one)).collect()));
        let (_managers, receiver) = watch::channel(opensm);
        let (told, health) = watch::channel(Health::default());
        let running = Running::default();
        running.set_period(period);
        tokio::spawn(run(running.clone(), receiver, told));
        Self { running, health, _managers }
    }

    fn want(&self, wanted: Table) {
        let guids = (POOL..POOL + 0x4000).map(Guid::new).collect();
        self.running.lock().want(wanted, Owned { guids, ..Owned::default() });
        self.running.wake();
    }
}

/// Waits until a port's table is so, and tells how long that took.
async fn shows(bed: &Bed, port: Guid, wanted: impl Fn(&[u16]) -> bool) -> Duration {
    let begun = Instant::now();
    loop {
        let found = bed.table(port).unwrap();
        if wanted(&found) {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{port} has {found:04x?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
