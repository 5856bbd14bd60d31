//! Starts the tasks that configure the adapters.

use super::{
    Configurator, DerivedGuids, GuidSource, OriginalStateStore,
    guids::PooledGuids,
    object::NodeStateObject,
    reboot::RebootLog,
    reconcile::{MIN_BACKOFF, NodeStateReconciler},
};
use crate::{
    Error,
    advertise::DeviceState,
    caches::PodOwner,
    partition::{GuidClaimClient, RequestedGuids},
    pools::DevicePool,
};
use ferroband_daemon::{Retry, tasks::TaskSet, watch_cache::WatchCache};
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_partition::{ClusterSlice, GuidRange};
use kube::Client;
use std::{path::PathBuf, sync::Arc};
use tokio::{runtime::Handle, sync::watch, time};
use tracing::{info, warn};

pub struct ConfiguratorInputs {
    pub hardware: Arc<dyn Hardware>,
    pub firmware: Arc<dyn Firmware>,
    pub client: Client,
    pub node: String,
    /// Namespace in which Ferroband runs. It contains the SriovNetworkNodeState.
    pub namespace: String,
    /// Prefix of the resource names of policies, for example `openshift.io`.
    pub prefix: String,
    pub pods: Arc<WatchCache<PodOwner>>,
    /// The GUIDs that pods requested for their functions.
    pub requested_guids: Arc<RequestedGuids>,
    /// The kubelet's device plugin directory, which contains its checkpoint.
    pub device_plugins_dir: PathBuf,
    /// The hardware inventory and pools of this node. A changed inventory starts a configuration pass.
    pub devices: watch::Receiver<Arc<DeviceState>>,
    /// Receives the pools of the functions that are ready, which are then advertised.
    pub pools: watch::Sender<Arc<Vec<DevicePool>>>,
}

/// Starts two tasks: the watch of this node's SriovNetworkNodeState, and the configuration passes that apply
/// it.
pub fn start_configurator(inputs: ConfiguratorInputs, tasks: &mut TaskSet<Error>) -> Result<(), Error> {
    let original_states = OriginalStateStore::new(inputs.hardware.root());
    let reboots = RebootLog::open(inputs.hardware.root())?;
    let object = NodeStateObject::new(inputs.client.clone(), &inputs.namespace, &inputs.node);
    tasks.start_endless("SriovNetworkNodeState watch", object.clone().watch());
    let mut devices = inputs.devices.clone();
    let mut changes = object.cache().changes();
    let reconciling = async move {
        let guids = guid_source(&inputs).await;
        let configurator = Arc::new(Configurator {
            hardware: inputs.hardware,
            firmware: inputs.firmware,
            original_states,
            guids: Some(guids),
            requested_guids: inputs.requested_guids.clone(),
            device_plugins_dir: inputs.device_plugins_dir,
            pods: inputs.pods.clone(),
            pools: inputs.pools,
            prefix: inputs.prefix,
        });
        object.cache().wait_synced().await;
        inputs.pods.wait_synced().await;
        inputs.requested_guids.wait_loaded().await;
        let mut pod_changes = inputs.pods.changes();
        let mut reconciler = NodeStateReconciler::new(object, configurator, reboots);
        let mut inventory = devices.borrow_and_update().inventory.clone();
        loop {
            pod_changes.mark_unchanged();
            let next = reconciler.reconcile().await;
            let timer = time::sleep(next);
            tokio::pin!(timer);
            loop {
                tokio::select! {
                    () = &mut timer => break,
                    changed = changes.changed() => if changed.is_ok() { break },
                    // A pod may have released a function for which a change waits.
                    changed = pod_changes.changed(), if reconciler.waits_for_pods() => {
                        if changed.is_ok() { break }
                    }
                    changed = devices.changed() => {
                        let now = devices.borrow_and_update().inventory.clone();
                        if changed.is_ok() && now != std::mem::replace(&mut inventory, now.clone()) {
                            break;
                        }
                    }
                }
            }
        }
    };
    tasks.start_endless("configuration", reconciling);
    Ok(())
}

/// Reads the cluster UID and the administrator's GUID range, retrying until that succeeds, and selects the GUID
/// source.
async fn guid_source(inputs: &ConfiguratorInputs) -> Arc<dyn GuidSource> {
    let claims = GuidClaimClient::new(inputs.client.clone(), inputs.node.clone());
    let mut retry = Retry::new(MIN_BACKOFF, MIN_BACKOFF);
    let (cluster, range) = loop {
        match tokio::try_join!(claims.cluster_uid(), claims.guid_range()) {
            Ok(both) => break both,
            Err(fault) => {
                if let Some(error) = retry.news(&fault) {
                    warn!(error, "cannot read the cluster identity and the GUID range, retrying");
                }
                retry.pause().await;
            }
        }
    };
    // Derived GUIDs are spread over the full default range of ib-kubernetes, so collisions are unlikely. In a
    // smaller range, GUIDs must be claimed.
    if range == GuidRange::DEFAULT {
        Arc::new(DerivedGuids { cluster, node: inputs.node.clone() })
    } else {
        info!(first = %range.first, last = %range.last, "assigning GUIDs from the configured range");
        Arc::new(PooledGuids::new(claims, ClusterSlice::new(range, &cluster), Handle::current()))
    }
}
