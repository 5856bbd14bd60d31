//! The standalone device plugin. It advertises and allocates devices, and needs neither the API server nor
//! the network nor Linux capabilities.

use crate::install::termination_signal;
use crate::{
    Error,
    advertise::{AllocatedDevices, DeviceState, KubeletDir, run_device_plugins, run_device_state},
    allocate::ContainerAllocator,
    discover::{self, DiscoveryRoots, Inventory},
    pools::{PoolConfig, PoolSources, watch_pool_config},
};
use ferroband_daemon::tasks::TaskSet;
use ferroband_kernel::Hardware;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::info;

/// What the device plugin needs to start: its configuration, the hardware, and the kubelet's directory.
pub struct DevicePluginConfig {
    pub roots: DiscoveryRoots,
    /// Source of hardware events. The inventory itself is read from `roots`.
    pub hardware: Arc<dyn Hardware>,
    pub kubelet: KubeletDir,
    pub sources: PoolSources,
    /// Pass virtual functions to containers by CDI device name instead of by device file.
    pub cdi: bool,
}

/// Channels on which the started device plugin reports its status to the rest of the daemon.
pub(crate) struct DevicePluginStatus {
    pub(crate) devices: watch::Receiver<Arc<DeviceState>>,
    /// `true` once the kubelet has registered every resource.
    pub(crate) registered: watch::Receiver<bool>,
}

impl DevicePluginConfig {
    /// Reads the inventory once and then starts the plugin's tasks in `tasks`.
    pub(crate) async fn start(self, tasks: &mut TaskSet<Error>) -> Result<DevicePluginStatus, Error> {
        let Self { roots, hardware, kubelet, sources, cdi } = self;
        let stop = tasks.stop.clone();
        let first = discover::read_inventory(roots.clone()).await?;
        let (inventory, inventory_receiver) = watch::channel(Arc::<Inventory>::new(first));
        tasks.start_until_stop("discovery", discover::watch_inventory(roots.clone(), hardware, inventory));
        let (config_sender, configured) = watch::channel(Arc::new(PoolConfig::default()));
        tasks.start_endless("device configuration", watch_pool_config(sources, config_sender));
        let allocated = AllocatedDevices::default();
        let (state_sender, devices) = watch::channel(Arc::new(DeviceState::default()));
        let kubelet_dir = kubelet.clone();
        tasks.start_until_stop(
            "device state",
            run_device_state(configured, inventory_receiver, kubelet_dir, allocated.clone(), state_sender),
        );
        let allocator = ContainerAllocator::new(roots);
        let allocator = Arc::new(if cdi { allocator.with_cdi() } else { allocator });
        let (registered_sender, registered) = watch::channel(false);
        tasks.start(
            "device plugin",
            run_device_plugins(kubelet, devices.clone(), allocator, allocated, registered_sender, stop),
        );
        Ok(DevicePluginStatus { devices, registered })
    }
}

/// Runs `plugin` until SIGTERM or SIGINT.
pub async fn run_device_plugin(plugin: DevicePluginConfig) -> Result<(), Error> {
    let stop_requested = termination_signal()?;
    let mut tasks = TaskSet::default();
    let status = plugin.start(&mut tasks).await?;
    let result = tasks.run_until(stop_requested).await;
    info!("stopping");
    tasks.stop_all().await;
    drop(status);
    result
}
