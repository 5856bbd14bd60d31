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
    Inventory, Sight,
    signs::{Sign, Signs},
};
use crate::{Error, error::chain, folder::Folder};
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
const GLANCE: Duration = Duration::from_secs(10);
/// The same where events cannot be heard. sysfs itself sends none.
const DEAF: Duration = Duration::from_millis(500);
/// How often ports are asked for their state. The kernel tells of it only by an interface's carrier, which a port
/// need not have (docs/decisions/0010).
const PORTS: Duration = Duration::from_secs(1);
/// When everything is read all the same: P_Key tables and LIDs change unseen.
const LOOK: Duration = Duration::from_secs(60);

/// Look once.
pub async fn look(sight: Sight) -> Result<Inventory, Error> {
    Ok(blocking(move || sight.look()).await??)
}

/// Keep `inventory` as the node is, until `stop`: what comes, goes or changes is there within a second.
pub async fn keep_current(
    sight: Sight,
    hardware: Arc<dyn Hardware>,
    inventory: watch::Sender<Arc<Inventory>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let watching = Watching { signs: Signs::of(hardware.as_ref()), files: None, hardware, sight };
    tokio::select! {
        end = watching.keep(inventory) => end,
        () = stop.cancelled() => Ok(()),
    }
}

struct Watching {
    sight: Sight,
    hardware: Arc<dyn Hardware>,
    signs: Signs,
    files: Option<Folder>,
}

impl Watching {
    async fn keep(mut self, inventory: watch::Sender<Arc<Inventory>>) -> Result<(), Error> {
        let mut last_problem = String::new();
        loop {
            if self.files.is_none() {
                self.files = Folder::watch(&self.sight.files)?;
            }
            // Before the look, so that what happens during it is not overlooked.
            let (seen, ports) = (self.glance().await?, self.ports().await?);
            match look(self.sight.clone()).await {
                Ok(now) => {
                    last_problem.clear();
                    tell(&inventory, now);
                }
                // What was seen last stays: a file that cannot be read is no reason to take devices away.
                Err(e) => {
                    let problem = chain(&e);
                    if problem != last_problem {
                        warn!(error = problem, "cannot read the inventory");
                        last_problem = problem;
                    }
                }
            }
            self.sign(&seen, &ports).await?;
        }
    }

    /// Returns when there is a reason to look.
    async fn sign(&mut self, seen: &[String], ports: &[String]) -> Result<(), Error> {
        let begin = Instant::now();
        let mut states = ticks(PORTS);
        let mut glances = ticks(if self.signs.deaf() { DEAF } else { GLANCE });
        while begin.elapsed() < LOOK {
            tokio::select! {
                sign = self.signs.next() => {
                    let sign = self.signs.settle().await.max(Some(sign));
                    if sign == Some(Sign::Devices) || self.glance().await? != seen {
                        return Ok(());
                    }
                }
                there = changed(&self.sight.files, self.files.as_mut()) => {
                    match there {
                        true => drop(self.signs.settle().await),
                        false => self.files = None,
                    }
                    return Ok(());
                }
                _ = states.tick() => if self.ports().await? != ports {
                    return Ok(());
                },
                _ = glances.tick() => if self.glance().await? != seen {
                    return Ok(());
                },
            }
        }
        Ok(())
    }

    fn glance(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let (sight, hardware) = (self.sight.clone(), self.hardware.clone());
        blocking(move || {
            // Only simulated trees need it, and only whoever may write them can do it.
            if let Err(e) = hardware.refresh() {
                debug!(error = %chain(&e), "simulated hardware stays as it was");
            }
            sight.glance()
        })
    }

    fn ports(&self) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let sight = self.sight.clone();
        blocking(move || sight.ports())
    }
}

/// Ticks from one pause after now on.
fn ticks(pause: Duration) -> time::Interval {
    let mut ticks = time::interval_at(Instant::now() + pause, pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Returns after something in the folder changed: whether it can be watched on. One that is not there is looked for.
async fn changed(path: &Path, files: Option<&mut Folder>) -> bool {
    match files {
        Some(files) => files.changed().await,
        None => {
            while !path.is_dir() {
                time::sleep(DEAF).await;
            }
            false
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|e| Error::Task { task: "discovery", source: Some(Box::new(e)) })
}

fn tell(inventory: &watch::Sender<Arc<Inventory>>, now: Inventory) {
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
