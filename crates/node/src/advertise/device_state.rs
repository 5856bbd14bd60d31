//! What the kubelet is to be told, kept current.

use super::{
    checkpoint::{self, HeldDevices, StaleCheckpointEntries},
    port_health::PortHealth,
    registration::KubeletDir,
    terminating::TerminatingDevices,
};
use crate::{
    Error,
    discover::Inventory,
    kubelet::PodResourcesClient as PodResources,
    pools::{AdvertisedPool, PoolConfig, PoolProblem, build_advertised_pools},
};
use ferroband_model::PciAddress;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often the kubelet's notes are read while a unit waits for its pod to end.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// Every resource of this node, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// The hardware.
    pub inventory: Arc<Inventory>,
    /// Who has what of it.
    pub pools: Vec<AdvertisedPool>,
    /// What whoever configured the node should know.
    pub problems: Vec<PoolProblem>,
    /// Whether the node has been looked at.
    pub initialized: bool,
}

impl DeviceState {
    /// The share of `resource`.
    pub fn pool(&self, resource: &str) -> Option<&AdvertisedPool> {
        self.pools.iter().find(|share| share.pool.resource.to_string() == resource)
    }
}

/// What was given out since we started, for when the kubelet's notes cannot be read.
pub type AllocatedDevices = Arc<Mutex<HeldDevices>>;

/// Keep `board` as hardware and configuration are, until `stop`.
pub async fn run_device_state(
    mut configured: watch::Receiver<Arc<PoolConfig>>,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    kubelet: KubeletDir,
    given: AllocatedDevices,
    board: watch::Sender<Arc<DeviceState>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut health = PortHealth::default();
    let mut leaving = TerminatingDevices::default();
    let mut departed = StaleCheckpointEntries::default();
    let (folder, kubelet) = (kubelet.device_plugins_dir(), PodResources::in_kubelet_dir(&kubelet.path));
    loop {
        let (wanted, seen) = (configured.borrow_and_update().clone(), inventory.borrow_and_update().clone());
        let notes = spawn_blocking({
            let folder = folder.clone();
            move || checkpoint::read_checkpoint(&folder)
        });
        let notes =
            notes.await.map_err(|e| Error::Task { task: "device board", source: Some(Box::new(e)) })?;
        let mut held = notes.unwrap_or_else(|| given.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if !held.is_empty() {
            departed.remove_stale(&mut held, kubelet.list_allocated_devices().await.as_ref(), Instant::now());
        }
        let ids = held.keys().map(|(_, id)| id).filter(|id| id.parse::<PciAddress>().is_ok());
        let functions: BTreeSet<String> = ids.cloned().collect();
        let now = Instant::now();
        health.update(&seen, now);
        let (mut shares, problems) =
            build_advertised_pools(&wanted.pools, &seen, &functions, &|pci| health.is_up(pci));
        leaving.apply(&mut shares, &held, now);
        let problems: Vec<_> = wanted.problems.iter().cloned().chain(problems).collect();
        let next = DeviceState { inventory: seen, pools: shares, problems, initialized: true };
        board.send_if_modified(|known| {
            let changed = **known != next;
            for problem in next.problems.iter().filter(|problem| !known.problems.contains(problem)) {
                if !wanted.problems.contains(problem) {
                    warn!(%problem, "device pool");
                }
            }
            if changed {
                *known = Arc::new(next);
            }
            changed
        });
        let notes = leaving.is_pending().then(|| now + CHECKPOINT_INTERVAL);
        let due = health.next_deadline().into_iter().chain(notes).chain(departed.next_deadline(now)).min();
        let due = async {
            match due {
                Some(due) => time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            changed = configured.changed() => changed,
            changed = inventory.changed() => changed,
            () = due => Ok(()),
            () = stop.cancelled() => return Ok(()),
        };
        if changed.is_err() {
            // The sender's task has ended, and with it the daemon.
            stop.cancelled().await;
            return Ok(());
        }
    }
}
