//! Every resource of the board, each with a socket of its own.

use super::{
    AllocatedDevices, DeviceState,
    registration::{KubeletDir, run_plugin},
    resource_plugin::ResourcePlugin,
};
use crate::{Error, allocate::ContainerAllocator};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Offer what is on `board` to the kubelet, until `stop`. A resource that was offered once stays, at zero if need be: the
/// kubelet would otherwise take its devices for lost. `registered` tells whether the kubelet knows all there is to know.
pub async fn run_device_plugins(
    kubelet: KubeletDir,
    mut board: watch::Receiver<Arc<DeviceState>>,
    desk: Arc<ContainerAllocator>,
    given: AllocatedDevices,
    registered: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut offered: BTreeMap<String, watch::Receiver<bool>> = BTreeMap::new();
    let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
    let (knock, mut knocked) = tokio::sync::mpsc::unbounded_channel::<()>();
    tokio::select! {
        known = board.wait_for(|board| board.initialized) => {
            known.map_err(|e| Error::Task { task: "device board", source: Some(Box::new(e)) })?;
        }
        () = stop.cancelled() => return Ok(()),
    }
    loop {
        let now = board.borrow_and_update().clone();
        for share in &now.pools {
            let resource = share.pool.resource.to_string();
            if offered.contains_key(&resource) || (share.devices.is_empty() && !share.advertise_when_empty())
            {
                continue;
            }
            let (tell, told) = watch::channel(false);
            let plugin = ResourcePlugin {
                resource: resource.clone(),
                state: board.clone(),
                allocator: desk.clone(),
                allocated: given.clone(),
                stop: stop.clone(),
            };
            tasks.spawn(run_plugin(kubelet.clone(), plugin, tell, stop.clone()));
            let (mut changes, knock) = (told.clone(), knock.clone());
            tasks.spawn(async move {
                while changes.changed().await.is_ok() && knock.send(()).is_ok() {}
                Ok(())
            });
            offered.insert(resource, told);
        }
        let all = offered.values().all(|told| *told.borrow());
        registered.send_if_modified(|known| std::mem::replace(known, all) != all);
        tokio::select! {
            changed = board.changed() => if changed.is_err() {
                stop.cancelled().await;
            },
            _ = knocked.recv() => {}
            Some(ended) = tasks.join_next() => match ended {
                Ok(Ok(())) => {}
                Ok(Err(e)) => return Err(e),
                Err(e) => return Err(Error::Task { task: "device plugin", source: Some(Box::new(e)) }),
            },
            () = stop.cancelled() => {}
        }
        if stop.is_cancelled() {
            drop(offered);
            while let Some(ended) = tasks.join_next().await {
                if let Ok(Err(e)) = ended {
                    return Err(e);
                }
            }
            return Ok(());
        }
    }
}
