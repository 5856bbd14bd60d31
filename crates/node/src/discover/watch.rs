//! Keeping the inventory current.
//!
//! ```text
//! events of the kernel ──▶ Devices ────────────────────────┐
//!   or of a simulation ──▶ Interfaces ──▶ glance: changed? ─┤
//! folder of device files ──────────────────────────────────┼──▶ look at everything ──▶ Inventory
//! every second ──▶ states of the physical ports: changed? ──┤
//! now and then ──▶ glance: changed? ────────────────────────┘     (and once a minute without a sign)
//! ```

use super::{
    DiscoveryRoots, Inventory,
    hw_events::{DiscoveryEvent, DiscoveryEvents},
};
use crate::{Error, dir_watch::WatchedDir, error::error_chain};
use ferroband_kernel::Hardware;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{self, Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How often the node is glanced at without a sign: events may be lost.
const FINGERPRINT_INTERVAL: Duration = Duration::from_secs(10);
/// The same where events cannot be heard. sysfs itself sends none.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often ports are asked for their state. The kernel tells of it only by an interface's carrier, which a port
/// need not have (docs/decisions/0010).
const PORT_INTERVAL: Duration = Duration::from_secs(1);
/// When everything is read all the same: P_Key tables and LIDs change unseen.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(60);

/// Look once.
pub async fn read_inventory(sight: DiscoveryRoots) -> Result<Inventory, Error> {
    Ok(blocking(move || sight.read_inventory()).await??)
}

/// Keep `inventory` as the node is, until `stop`: what comes, goes or changes is there within a second.
pub async fn watch_inventory(
    sight: DiscoveryRoots,
    hardware: Arc<dyn Hardware>,
    inventory: watch::Sender<Arc<Inventory>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let watching = InventoryWatcher {
        events: DiscoveryEvents::subscribe(hardware.as_ref()),
        device_dir_watch: None,
        hardware,
        roots: sight,
    };
    tokio::select! {
        end = watching.run(inventory) => end,
        () = stop.cancelled() => Ok(()),
    }
}

struct InventoryWatcher {
    roots: DiscoveryRoots,
    hardware: Arc<dyn Hardware>,
    events: DiscoveryEvents,
    device_dir_watch: Option<WatchedDir>,
}

impl InventoryWatcher {
    async fn run(mut self, inventory: watch::Sender<Arc<Inventory>>) -> Result<(), Error> {
        let mut last_problem = String::new();
        loop {
            if self.device_dir_watch.is_none() {
                self.device_dir_watch = WatchedDir::watch(&self.roots.device_dir)?;
            }
            // Before the look, so that what happens during it is not overlooked.
            let (seen, ports) = (self.fingerprint().await?, self.port_fingerprint().await?);
            match read_inventory(self.roots.clone()).await {
                Ok(now) => {
                    last_problem.clear();
                    publish(&inventory, now);
                }
                // What was seen last stays: a file that cannot be read is no reason to take devices away.
                Err(e) => {
                    let problem = error_chain(&e);
                    if problem != last_problem {
                        warn!(error = problem, "cannot read the inventory");
                        last_problem = problem;
                    }
                }
            }
            self.wait_for_change(&seen, &ports).await?;
        }
    }

    /// Returns when there is a reason to look.
    async fn wait_for_change(&mut self, seen: &[String], ports: &[String]) -> Result<(), Error> {
        let begin = Instant::now();
        let mut states = interval(PORT_INTERVAL);
        let mut glances =
            interval(if self.events.is_unavailable() { POLL_INTERVAL } else { FINGERPRINT_INTERVAL });
        while begin.elapsed() < FULL_READ_INTERVAL {
            tokio::select! {
                sign = self.events.next() => {
                    let sign = self.events.wait_quiet().await.max(Some(sign));
                    if sign == Some(DiscoveryEvent::Devices) || self.fingerprint().await? != seen {
                        return Ok(());
                    }
                }
                there = device_dir_changed(&self.roots.device_dir, self.device_dir_watch.as_mut()) => {
                    match there {
                        true => drop(self.events.wait_quiet().await),
                        false => self.device_dir_watch = None,
                    }
                    return Ok(());
                }
                _ = states.tick() => if self.port_fingerprint().await? != ports {
                    return Ok(());
                },
                _ = glances.tick() => if self.fingerprint().await? != seen {
                    return Ok(());
                },
            }
        }
        Ok(())
    }

    fn fingerprint(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let (sight, hardware) = (self.roots.clone(), self.hardware.clone());
        blocking(move || {
            // Only simulated trees need it, and only whoever may write them can do it.
            if let Err(e) = hardware.refresh() {
                debug!(error = %error_chain(&e), "simulated hardware stays as it was");
            }
            sight.fingerprint()
        })
    }

    fn port_fingerprint(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let sight = self.roots.clone();
        blocking(move || sight.port_fingerprint())
    }
}

/// Ticks from one pause after now on.
fn interval(pause: Duration) -> time::Interval {
    let mut ticks = time::interval_at(Instant::now() + pause, pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Returns after something in the folder changed: whether it can be watched on. One that is not there is looked for.
async fn device_dir_changed(path: &Path, files: Option<&mut WatchedDir>) -> bool {
    match files {
        Some(files) => files.changed().await,
        None => {
            while !path.is_dir() {
                time::sleep(POLL_INTERVAL).await;
            }
            false
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|e| Error::Task { task: "discovery", source: Some(Box::new(e)) })
}

fn publish(inventory: &watch::Sender<Arc<Inventory>>, now: Inventory) {
    inventory.send_if_modified(|known| {
        let changed = **known != now;
        if changed {
            let devices: Vec<_> = now.devices.iter().map(|device| device.name.as_str()).collect();
            info!(?devices, simulated = now.simulated, "RDMA devices of this node");
            *known = Arc::new(now);
        }
        changed
    });
}
