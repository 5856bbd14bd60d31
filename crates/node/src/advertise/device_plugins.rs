//! Runs one device plugin with its own socket for each resource.

use super::{
    AllocatedDevices, DeviceState,
    registration::{KubeletDir, run_plugin},
    resource_plugin::ResourcePlugin,
};
use crate::{Error, allocate::ContainerAllocator};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Advertises the pools of `state` to the kubelet until `stop`. A resource that was advertised once stays
/// registered, even if it has no devices any more. Otherwise the kubelet would treat its devices as lost.
/// `registered` is `true` while all resources are registered.
pub async fn run_device_plugins(
    kubelet: KubeletDir,
    mut state: watch::Receiver<Arc<DeviceState>>,
    allocator: Arc<ContainerAllocator>,
    allocated: AllocatedDevices,
    registered: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut plugins: BTreeMap<String, watch::Receiver<bool>> = BTreeMap::new();
    let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
    let (notify, mut notified) = tokio::sync::mpsc::unbounded_channel::<()>();
    tokio::select! {
        initialized = state.wait_for(|state| state.initialized) => {
            initialized.map_err(|e| Error::Task { task: "device state", source: Some(Box::new(e)) })?;
        }
        () = stop.cancelled() => return Ok(()),
    }
    loop {
        let current = state.borrow_and_update().clone();
        for advertised in &current.pools {
            let resource = advertised.pool.resource.to_string();
            if plugins.contains_key(&resource)
                || (advertised.devices.is_empty() && !advertised.advertise_when_empty())
            {
                continue;
            }
            let (set_registered, is_registered) = watch::channel(false);
            let plugin = ResourcePlugin {
                resource: resource.clone(),
                state: state.clone(),
                allocator: allocator.clone(),
                allocated: allocated.clone(),
                stop: stop.clone(),
            };
            tasks.spawn(run_plugin(kubelet.clone(), plugin, set_registered, stop.clone()));
            let (mut changes, notify) = (is_registered.clone(), notify.clone());
            tasks.spawn(async move {
                while changes.changed().await.is_ok() && notify.send(()).is_ok() {}
                Ok(())
            });
            plugins.insert(resource, is_registered);
        }
        let all_registered = plugins.values().all(|is_registered| *is_registered.borrow());
        registered.send_if_modified(|previous| std::mem::replace(previous, all_registered) != all_registered);
        tokio::select! {
            changed = state.changed() => if changed.is_err() {
                stop.cancelled().await;
            },
            _ = notified.recv() => {}
            Some(ended) = tasks.join_next() => match ended {
                Ok(Ok(())) => {}
                Ok(Err(e)) => return Err(e),
                Err(e) => return Err(Error::Task { task: "device plugin", source: Some(Box::new(e)) }),
            },
            () = stop.cancelled() => {}
        }
        if stop.is_cancelled() {
            drop(plugins);
            while let Some(ended) = tasks.join_next().await {
                if let Ok(Err(e)) = ended {
                    return Err(e);
                }
            }
            return Ok(());
        }
    }
}
