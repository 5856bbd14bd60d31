//! Keeps the state of this node's devices current. The devices in it are advertised to the kubelet.

use super::{
    checkpoint::StaleCheckpointEntries, port_health::PortHealth, registration::KubeletDir,
    terminating::TerminatingDevices,
};
use crate::{
    Error,
    discover::Inventory,
    error::blocking,
    kubelet::{HeldDevices, PodResourcesClient, read_checkpoint},
    pools::{AdvertisedPool, PoolConfig, PoolProblem, build_advertised_pools},
};
use ferroband_model::PciAddress;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, time};
use tracing::warn;

/// Interval at which the kubelet's checkpoint is read while a pod may still hold a device that is no longer
/// in its pool.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// The hardware inventory and the pools of this node with their devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    pub inventory: Arc<Inventory>,
    pub pools: Vec<AdvertisedPool>,
    /// Problems in the configuration files, and problems found while devices were assigned to pools.
    pub problems: Vec<PoolProblem>,
    /// `false` until the hardware has been read for the first time.
    pub initialized: bool,
}

impl DeviceState {
    /// Returns the pool whose resource name, with prefix, is `resource`.
    pub fn pool(&self, resource: &str) -> Option<&AdvertisedPool> {
        self.pools.iter().find(|advertised| advertised.pool.resource.to_string() == resource)
    }
}

/// Devices allocated since this process started. Used if the kubelet's checkpoint cannot be read.
pub type AllocatedDevices = Arc<Mutex<HeldDevices>>;

/// Updates the device state whenever the hardware or the configuration changes. Returns only errors.
pub async fn run_device_state(
    mut configured: watch::Receiver<Arc<PoolConfig>>,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    kubelet: KubeletDir,
    allocated: AllocatedDevices,
    state: watch::Sender<Arc<DeviceState>>,
) -> Result<(), Error> {
    let mut health = PortHealth::default();
    let mut terminating = TerminatingDevices::default();
    let mut stale = StaleCheckpointEntries::default();
    let (plugins_dir, pod_resources) =
        (kubelet.device_plugins_dir(), PodResourcesClient::in_kubelet_dir(&kubelet.path));
    loop {
        let (config, current) =
            (configured.borrow_and_update().clone(), inventory.borrow_and_update().clone());
        let dir = plugins_dir.clone();
        let checkpoint = blocking("device state", move || read_checkpoint(&dir)).await?;
        let mut held = checkpoint.unwrap_or_else(|| allocated.lock().clone());
        if !held.is_empty() {
            stale.remove_stale(
                &mut held,
                pod_resources.list_allocated_devices().await.as_ref(),
                Instant::now(),
            );
        }
        let ids = held.keys().map(|(_, id)| id).filter(|id| id.parse::<PciAddress>().is_ok());
        let held_functions: BTreeSet<String> = ids.cloned().collect();
        let now = Instant::now();
        health.update(&current, now);
        let (mut pools, problems) =
            build_advertised_pools(&config.pools, &current, &held_functions, &|pci| health.is_up(pci));
        terminating.apply(&mut pools, &held, now);
        let problems: Vec<_> = config.problems.iter().cloned().chain(problems).collect();
        let next = DeviceState { inventory: current, pools, problems, initialized: true };
        state.send_if_modified(|previous| {
            let changed = **previous != next;
            for problem in next.problems.iter().filter(|problem| !previous.problems.contains(problem)) {
                if !config.problems.contains(problem) {
                    warn!(%problem, "problem with a device pool");
                }
            }
            if changed {
                *previous = Arc::new(next);
            }
            changed
        });
        let reread = terminating.is_pending().then(|| now + CHECKPOINT_INTERVAL);
        let deadline = health.next_deadline().into_iter().chain(reread).chain(stale.next_deadline(now)).min();
        let deadline = async {
            match deadline {
                Some(deadline) => time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            changed = configured.changed() => changed,
            changed = inventory.changed() => changed,
            () = deadline => Ok(()),
        };
        if changed.is_err() {
            // The sender's task has ended, so the daemon is stopping.
            return std::future::pending().await;
        }
    }
}
