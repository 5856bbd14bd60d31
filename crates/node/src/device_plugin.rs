//! The device plugin alone: advertise and allocate, without an API server, without a network, without capabilities.

use crate::{
    Error,
    advertise::{Board, Given, Kubelet, keep_board, keep_offered},
    allocate::Desk,
    discover::{self, Inventory, Sight},
    pools::{Configured, Sources, keep_read},
    run::stop_asked,
};
use ferroband_daemon::tasks::Tasks;
use ferroband_kernel::Hardware;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::info;

/// A device plugin as it is to run.
pub struct DevicePlugin {
    /// The machine, as it is looked at.
    pub sight: Sight,
    /// The same, as it tells of changes.
    pub hardware: Arc<dyn Hardware>,
    /// The kubelet.
    pub kubelet: Kubelet,
    /// What is offered.
    pub sources: Sources,
    /// Give functions by the names of a CDI specification.
    pub cdi: bool,
}

/// What a device plugin shows of itself to the rest of a daemon.
pub(crate) struct Shown {
    /// The resources.
    pub(crate) board: watch::Receiver<Arc<Board>>,
    /// Whether the kubelet knows all of them.
    pub(crate) registered: watch::Receiver<bool>,
}

impl DevicePlugin {
    /// Start everything in `tasks`.
    pub(crate) async fn start(self, tasks: &mut Tasks<Error>) -> Result<Shown, Error> {
        let Self { sight, hardware, kubelet, sources, cdi } = self;
        let stop = tasks.stop.clone();
        let first = discover::look(sight.clone()).await?;
        let (inventory, seen) = watch::channel(Arc::<Inventory>::new(first));
        tasks.start("discovery", discover::keep_current(sight.clone(), hardware, inventory, stop.clone()));
        let (tell, configured) = watch::channel(Arc::new(Configured::default()));
        tasks.start("device configuration", keep_read(sources, tell, stop.clone()));
        let given = Given::default();
        let (tell, board) = watch::channel(Arc::new(Board::default()));
        let notes = kubelet.clone();
        tasks.start("device board", keep_board(configured, seen, notes, given.clone(), tell, stop.clone()));
        let desk = Desk::new(sight);
        let desk = Arc::new(if cdi { desk.with_cdi() } else { desk });
        let (tell, registered) = watch::channel(false);
        tasks.start("device plugin", keep_offered(kubelet, board.clone(), desk, given, tell, stop));
        Ok(Shown { board, registered })
    }
}

/// Run `plugin` until SIGTERM or SIGINT.
pub async fn device_plugin(plugin: DevicePlugin) -> Result<(), Error> {
    let asked = stop_asked()?;
    let mut tasks = Tasks::default();
    let shown = plugin.start(&mut tasks).await?;
    let ended = tasks.until(asked).await;
    info!("stopping");
    tasks.end().await;
    drop(shown);
    ended
}
