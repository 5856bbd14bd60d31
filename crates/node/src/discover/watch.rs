//! Keeps the inventory current.
//!
//! ```text
//! events of the kernel ──▶ Devices ─────────────────────────────┐
//!   or of a simulation ──▶ Interfaces ──▶ summary: changed? ────┤
//! directory of device files ────────────────────────────────────┼──▶ full read ──▶ Inventory
//! every second ──▶ states of the physical ports: changed? ──────┤
//! every 10 s ──▶ summary: changed? ─────────────────────────────┘     (and once a minute in any case)
//! ```

use super::{
    DiscoveryRoots, Inventory,
    hw_events::{DiscoveryEvent, DiscoveryEvents},
};
use crate::{Error, dir_watch::WatchedDir, error::blocking};
use ferroband_daemon::{Retry, error_chain};
use ferroband_kernel::Hardware;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{self, Instant, MissedTickBehavior},
};
use tracing::{debug, info, warn};

/// Interval at which the hardware fingerprint is compared even without an event, because events may be lost.
const FINGERPRINT_INTERVAL: Duration = Duration::from_secs(10);
/// Interval at which the hardware fingerprint is compared if kernel events are unavailable. Files in sysfs
/// cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which port states are read. The kernel reports a port state only as the carrier of the port's
/// interface, and a port may have no interface (docs/decisions/0010).
const PORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum interval between full reads of the inventory, because P_Key tables and LIDs change without an
/// event.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(60);

/// Reads the inventory on a thread that may block.
pub async fn read_inventory(roots: DiscoveryRoots) -> Result<Inventory, Error> {
    Ok(blocking("discovery", move || roots.read_inventory()).await??)
}

/// Keeps `inventory` current. Returns only errors. Changes of devices and port states appear within about a second.
pub async fn watch_inventory(
    roots: DiscoveryRoots,
    hardware: Arc<dyn Hardware>,
    inventory: watch::Sender<Arc<Inventory>>,
) -> Result<(), Error> {
    let watcher = InventoryWatcher {
        events: DiscoveryEvents::subscribe(hardware.as_ref()),
        device_dir_watch: None,
        hardware,
        roots,
    };
    watcher.run(inventory).await
}

struct InventoryWatcher {
    roots: DiscoveryRoots,
    hardware: Arc<dyn Hardware>,
    events: DiscoveryEvents,
    device_dir_watch: Option<WatchedDir>,
}

impl InventoryWatcher {
    async fn run(mut self, inventory: watch::Sender<Arc<Inventory>>) -> Result<(), Error> {
        // Only a new failure is logged. The pauses are those of `wait_for_change`.
        let mut retry = Retry::new(POLL_INTERVAL, POLL_INTERVAL);
        loop {
            if self.device_dir_watch.is_none() {
                self.device_dir_watch = WatchedDir::watch(&self.roots.device_dir);
            }
            // Take the fingerprints of hardware and ports before the full read, so that changes during the
            // read are not missed.
            let (summary, ports) = (self.fingerprint().await?, self.port_fingerprint().await?);
            match read_inventory(self.roots.clone()).await {
                Ok(current) => {
                    retry.succeeded();
                    publish(&inventory, current);
                }
                // Keep the last inventory, because an unreadable file is no reason to remove devices.
                Err(e) => {
                    if let Some(error) = retry.news(&e) {
                        warn!(error, "cannot read the hardware inventory, keeping the last one");
                    }
                }
            }
            self.wait_for_change(&summary, &ports).await?;
        }
    }

    /// Waits until an event or a changed fingerprint requires a full read of the inventory, at most
    /// `FULL_READ_INTERVAL`.
    async fn wait_for_change(&mut self, summary: &[String], ports: &[String]) -> Result<(), Error> {
        let begin = Instant::now();
        let mut states = interval(PORT_INTERVAL);
        let mut summaries =
            interval(if self.events.is_unavailable() { POLL_INTERVAL } else { FINGERPRINT_INTERVAL });
        while begin.elapsed() < FULL_READ_INTERVAL {
            tokio::select! {
                event = self.events.next() => {
                    let event = self.events.wait_quiet().await.max(Some(event));
                    if event == Some(DiscoveryEvent::Devices) || self.fingerprint().await? != summary {
                        return Ok(());
                    }
                }
                still_watched = device_dir_changed(&self.roots.device_dir, self.device_dir_watch.as_mut()) => {
                    match still_watched {
                        true => drop(self.events.wait_quiet().await),
                        false => self.device_dir_watch = None,
                    }
                    return Ok(());
                }
                _ = states.tick() => if self.port_fingerprint().await? != ports {
                    return Ok(());
                },
                _ = summaries.tick() => if self.fingerprint().await? != summary {
                    return Ok(());
                },
            }
        }
        Ok(())
    }

    fn fingerprint(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let (roots, hardware) = (self.roots.clone(), self.hardware.clone());
        blocking("discovery", move || {
            // Only simulated hardware needs a refresh. It fails in a process that may not write the simulated
            // files.
            if let Err(e) = hardware.refresh() {
                debug!(error = %error_chain(&e), "cannot refresh the simulated hardware");
            }
            roots.fingerprint()
        })
    }

    fn port_fingerprint(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let roots = self.roots.clone();
        blocking("discovery", move || roots.port_fingerprint())
    }
}

/// An interval whose first tick is one period from now.
fn interval(pause: Duration) -> time::Interval {
    let mut ticks = time::interval_at(Instant::now() + pause, pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for a change in the directory of device files. Returns whether `dir_watch` is still valid. If
/// `dir_watch` is `None`, waits until the directory exists and returns `false`.
async fn device_dir_changed(path: &Path, dir_watch: Option<&mut WatchedDir>) -> bool {
    match dir_watch {
        Some(dir_watch) => dir_watch.changed().await,
        None => {
            while !path.is_dir() {
                time::sleep(POLL_INTERVAL).await;
            }
            false
        }
    }
}

fn publish(inventory: &watch::Sender<Arc<Inventory>>, current: Inventory) {
    inventory.send_if_modified(|published| {
        let changed = **published != current;
        if changed {
            let devices: Vec<_> = current.devices.iter().map(|device| device.name.as_str()).collect();
            info!(?devices, simulated = current.simulated, "hardware inventory changed");
            *published = Arc::new(current);
        }
        changed
    });
}
