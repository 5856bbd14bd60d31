//! Keeping the inventory current.

use super::Inventory;
use crate::{Error, error::chain, folder::Folder};
use ferroband_kernel::Host;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the node is looked at without a sign. sysfs sends none.
const LOOK: Duration = Duration::from_secs(2);
/// udev makes the files of one device one after the other; this long they are waited for.
const SETTLE: Duration = Duration::from_millis(50);

/// Look once.
pub async fn look(host: Arc<dyn Host>) -> Result<Inventory, Error> {
    let looked = spawn_blocking(move || Inventory::read(host.root(), host.simulated()));
    let looked = looked.await.map_err(|e| Error::Task { task: "discovery", source: Some(Box::new(e)) })?;
    Ok(looked?)
}

/// Keep `inventory` as the node is, until `stop`: at once when a device file comes or goes, else every other second.
pub async fn keep_current(
    host: Arc<dyn Host>,
    inventory: watch::Sender<Arc<Inventory>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let folder = host.root().dev("infiniband");
    let keeping = async {
        let mut files = None;
        let mut last_problem = String::new();
        loop {
            if files.is_none() {
                files = Folder::watch(&folder)?;
            }
            match look(host.clone()).await {
                Ok(now) => {
                    last_problem.clear();
                    inventory.send_if_modified(|known| {
                        let changed = **known != now;
                        if changed {
                            log(&now);
                            *known = Arc::new(now);
                        }
                        changed
                    });
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
            match &mut files {
                Some(watched) => match time::timeout(LOOK, watched.changed()).await {
                    Ok(Ok(true)) => time::sleep(SETTLE).await,
                    Ok(Ok(false)) => files = None,
                    Ok(Err(e)) => return Err(e),
                    Err(_) => {}
                },
                None => time::sleep(LOOK).await,
            }
        }
    };
    tokio::select! {
        end = keeping => end,
        () = stop.cancelled() => Ok(()),
    }
}

fn log(now: &Inventory) {
    let devices: Vec<_> = now.devices.iter().map(|device| device.name.as_str()).collect();
    info!(?devices, simulated = now.simulated, "RDMA devices of this node");
}
