//! Keeping the inventory current.

use super::{Inventory, Sight};
use crate::{Error, error::chain, folder::Folder};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the node is glanced at without a sign. sysfs sends none.
const GLANCE: Duration = Duration::from_millis(500);
/// How many glances may show nothing before everything is read all the same: P_Key tables and LIDs change unseen.
const GLANCES: u32 = 120;
/// udev makes the files of one device one after the other; this long they are waited for.
const SETTLE: Duration = Duration::from_millis(50);

/// Look once.
pub async fn look(sight: Sight) -> Result<Inventory, Error> {
    let looked = spawn_blocking(move || sight.look());
    let looked = looked.await.map_err(|e| Error::Task { task: "discovery", source: Some(Box::new(e)) })?;
    Ok(looked?)
}

/// Keep `inventory` as the node is, until `stop`: at once when a device file comes or goes, else within a second.
pub async fn keep_current(
    sight: Sight,
    inventory: watch::Sender<Arc<Inventory>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let keeping = async {
        let mut files = None;
        let mut last_problem = String::new();
        loop {
            if files.is_none() {
                files = Folder::watch(&sight.files)?;
            }
            let seen = glance(&sight).await?;
            match look(sight.clone()).await {
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
            for _ in 0..GLANCES {
                match &mut files {
                    Some(watched) => match time::timeout(GLANCE, watched.changed()).await {
                        Ok(Ok(true)) => {
                            time::sleep(SETTLE).await;
                            break;
                        }
                        Ok(Ok(false)) => {
                            files = None;
                            break;
                        }
                        Ok(Err(e)) => return Err(e),
                        Err(_) => {}
                    },
                    None => time::sleep(GLANCE).await,
                }
                if glance(&sight).await? != seen {
                    break;
                }
            }
        }
    };
    tokio::select! {
        end = keeping => end,
        () = stop.cancelled() => Ok(()),
    }
}

async fn glance(sight: &Sight) -> Result<Vec<String>, Error> {
    let sight = sight.clone();
    let glanced = spawn_blocking(move || sight.glance()).await;
    glanced.map_err(|e| Error::Task { task: "discovery", source: Some(Box::new(e)) })
}

fn log(now: &Inventory) {
    let devices: Vec<_> = now.devices.iter().map(|device| device.name.as_str()).collect();
    info!(?devices, simulated = now.simulated, "RDMA devices of this node");
}
