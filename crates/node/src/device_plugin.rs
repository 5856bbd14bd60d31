//! The device plugin alone: advertise and allocate, without an API server, without a network, without capabilities.

use crate::{
    Error,
    advertise::{AllocatedDevices, DeviceState, KubeletDir, run_device_plugins, run_device_state},
    allocate::ContainerAllocator,
    discover::{self, DiscoveryRoots, Inventory},
    pools::{PoolConfig, PoolSources, watch_pool_config},
    run::stop_signal,
};
use ferroband_daemon::tasks::TaskSet;
use ferroband_kernel::Hardware;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::info;

/// A device plugin as it is to run.
pub struct DevicePluginConfig {
    /// The machine, as it is looked at.
    pub roots: DiscoveryRoots,
    /// The same, as it tells of changes.
    pub hardware: Arc<dyn Hardware>,
    /// The kubelet.
    pub kubelet: KubeletDir,
    /// What is offered.
    pub sources: PoolSources,
    /// Give functions by the names of a CDI specification.
    pub cdi: bool,
}

/// What a device plugin shows of itself to the rest of a daemon.
pub(crate) struct DevicePluginStatus {
    /// The resources.
    pub(crate) devices: watch::Receiver<Arc<DeviceState>>,
    /// Whether the kubelet knows all of them.
    pub(crate) registered: watch::Receiver<bool>,
}

impl DevicePluginConfig {
    /// Start everything in `tasks`.
    pub(crate) async fn start(self, tasks: &mut TaskSet<Error>) -> Result<DevicePluginStatus, Error> {
        let Self { roots: sight, hardware, kubelet, sources, cdi } = self;
        let stop = tasks.stop.clone();
        let first = discover::read_inventory(sight.clone()).await?;
        let (inventory, seen) = watch::channel(Arc::<Inventory>::new(first));
        tasks.start("discovery", discover::watch_inventory(sight.clone(), hardware, inventory, stop.clone()));
        let (tell, configured) = watch::channel(Arc::new(PoolConfig::default()));
        tasks.start("device configuration", watch_pool_config(sources, tell, stop.clone()));
        let given = AllocatedDevices::default();
        let (tell, board) = watch::channel(Arc::new(DeviceState::default()));
        let notes = kubelet.clone();
        tasks.start(
            "device board",
            run_device_state(configured, seen, notes, given.clone(), tell, stop.clone()),
        );
        let desk = ContainerAllocator::new(sight);
        let desk = Arc::new(if cdi { desk.with_cdi() } else { desk });
        let (tell, registered) = watch::channel(false);
        tasks.start("device plugin", run_device_plugins(kubelet, board.clone(), desk, given, tell, stop));
        Ok(DevicePluginStatus { devices: board, registered })
    }
}

/// Run `plugin` until SIGTERM or SIGINT.
pub async fn run_device_plugin(plugin: DevicePluginConfig) -> Result<(), Error> {
    let asked = stop_signal()?;
    let mut tasks = TaskSet::default();
    let shown = plugin.start(&mut tasks).await?;
    let ended = tasks.run_until(asked).await;
    info!("stopping");
    tasks.stop_all().await;
    drop(shown);
    ended
}
