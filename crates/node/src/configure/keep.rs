//! Reconciles the node with its SriovNetworkNodeState.

use super::{
    ConfigurationPass, Configurator, DeferredVfChange, GuidSource,
    drain_request::{drain_annotations, next_drain_request},
    guids::{DerivedGuids, PooledGuids},
    object::NodeStateObject,
    reboot::{RebootLog, RebootStatus},
    record::OriginalStateStore,
    status::{Progress, build_status, deferred_message, is_urgent},
    want::DesiredNodeConfig,
};
use crate::{
    Error,
    advertise::DeviceState,
    caches::PodOwner,
    error::error_chain,
    partition::{GuidClaimClient, RequestedGuids},
    pools::DevicePool,
};
use ferroband_api::sriov::{
    DRAIN_COMPLETE, DRAIN_REQUIRED, IDLE, REBOOT_REQUIRED, SriovNetworkNodeState, SriovNetworkNodeStateStatus,
};
use ferroband_daemon::{tasks::TaskSet, watch_cache::WatchCache};
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_model::{Fault, FaultCode};
use ferroband_partition::{ClusterSlice, GuidRange};
use kube::Client;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::watch, task::spawn_blocking, time};
use tracing::{info, warn};

/// Interval of configuration passes while nothing changes.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of configuration passes while pods block a change.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval of status updates that only report details of the hardware, such as interfaces that move to and
/// from pods.
const STATUS_INTERVAL: Duration = Duration::from_secs(30);
/// How long the watch cache may take to show a status that was just written.
const CACHE_LAG: Duration = Duration::from_secs(5);
/// Initial and maximum pause after a failed configuration pass. Each failure doubles the pause.
const MIN_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

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
    let original_states = OriginalStateStore::open(inputs.hardware.root())?;
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
            guids,
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
        let mut reconciler = NodeStateReconciler {
            object,
            configurator,
            reboots,
            backoff: MIN_BACKOFF,
            last_error: String::new(),
            deferred: Vec::new(),
            last_written: None,
        };
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
                    changed = pod_changes.changed(), if !reconciler.deferred.is_empty() => {
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
    let mut last_error = String::new();
    let (cluster, range) = loop {
        let fault = match tokio::try_join!(claims.cluster_uid(), claims.guid_range()) {
            Ok(both) => break both,
            Err(fault) => fault.to_string(),
        };
        if fault != last_error {
            warn!(error = fault, "cannot read the cluster identity and the GUID range, retrying");
            last_error = fault;
        }
        time::sleep(MIN_BACKOFF).await;
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

struct NodeStateReconciler {
    object: NodeStateObject,
    configurator: Arc<Configurator>,
    reboots: RebootLog,
    backoff: Duration,
    last_error: String,
    /// The deferred changes that were logged last.
    deferred: Vec<DeferredVfChange>,
    /// Time and content of the last status update; `None` before the first update.
    last_written: Option<(Instant, SriovNetworkNodeStateStatus)>,
}

impl NodeStateReconciler {
    /// Runs one configuration pass and returns the time until the next one.
    async fn reconcile(&mut self) -> Duration {
        match self.try_reconcile().await {
            Ok(next) => {
                self.last_error.clear();
                next
            }
            Err(e) => {
                let problem = error_chain(&e);
                if problem != self.last_error {
                    warn!(error = problem, "cannot configure the adapters of this node, retrying");
                    self.last_error = problem;
                }
                self.next_backoff()
            }
        }
    }

    fn next_backoff(&mut self) -> Duration {
        let pause = self.backoff;
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        pause
    }

    async fn try_reconcile(&mut self) -> Result<Duration, Error> {
        let Some(state) = self.object.get() else {
            self.object.create().await?;
            return Ok(DRAIN_POLL_INTERVAL);
        };
        let desired = Arc::new(DesiredNodeConfig::from_spec(&state.spec));
        let mut failures = Vec::new();
        let mut pass = self.prepare(&desired).await?;
        for _ in 0..Configurator::MAX_ROUNDS {
            if pass.ready.is_empty() || !failures.is_empty() {
                break;
            }
            self.write_status(&state, &pass, &[], &Progress::Applying).await?;
            let (configurator, previous) = (self.configurator.clone(), pass);
            failures = blocking(move || Ok(configurator.apply_ready(&previous))).await?;
            pass = self.prepare(&desired).await?;
        }
        self.log_deferred(&pass);
        let progress = self.request_reboot(&state, &desired, &pass, &mut failures)?;
        let retry_in = self.write_status(&state, &pass, &failures, &progress).await?;
        let request = match (&progress, pass.holders.is_empty()) {
            (Progress::Applying, _) => REBOOT_REQUIRED,
            (_, true) => IDLE,
            (_, false) => DRAIN_REQUIRED,
        };
        let (current_request, drain_state) = drain_annotations(&state);
        let next_request = next_drain_request(request, current_request, drain_state);
        if current_request != Some(next_request) {
            info!(
                desired_state = next_request,
                holders = pass.holders.len(),
                "changing the desired-state annotation"
            );
            self.object.set_desired_state(next_request).await?;
        }
        if !failures.is_empty() || !pass.faults.is_empty() || matches!(progress, Progress::RebootRequired(_))
        {
            return Ok(self.next_backoff());
        }
        self.backoff = MIN_BACKOFF;
        Ok(match (pass.holders.is_empty(), retry_in) {
            (false, _) => DRAIN_POLL_INTERVAL,
            (true, Some(retry_in)) => retry_in,
            (true, None) => RESYNC_INTERVAL,
        })
    }

    /// Logs the changes that wait for a pod, whenever they change.
    fn log_deferred(&mut self, pass: &ConfigurationPass) {
        if pass.deferred != self.deferred {
            self.deferred.clone_from(&pass.deferred);
            if !self.deferred.is_empty() {
                info!("{}", deferred_message(&self.deferred));
            }
        }
    }

    /// Reboots the node if a change needs a reboot, the policy allows reboots and the node is drained. If a reboot
    /// did not help, adds a fault to `failures`.
    fn request_reboot(
        &self,
        state: &SriovNetworkNodeState,
        desired: &DesiredNodeConfig,
        pass: &ConfigurationPass,
        failures: &mut Vec<Fault>,
    ) -> Result<Progress, Error> {
        if pass.reboot.is_empty() {
            return Ok(Progress::Settled);
        }
        let what = pass.reboot.join(", ");
        let fault =
            |cause: String, remedy: &str| Fault::new(FaultCode::DeviceBusy, "this node", cause, remedy);
        let key = format!("{:?} {:?}", desired.adapters, desired.rdma_mode);
        match self.reboots.status(&key)? {
            RebootStatus::Ineffective => {
                let cause =
                    format!("the node was rebooted, but these settings have not taken effect: {what}");
                failures.push(fault(
                    cause,
                    "check the kernel log and the firmware settings; Ferroband does not reboot the node again",
                ));
            }
            RebootStatus::Due if !desired.allow_reboot => {
                let remedy = "reboot the node, or set allowReboot in its SriovNetworkPoolConfig";
                let cause = format!("these settings take effect only after a reboot: {what}");
                return Ok(Progress::RebootRequired(fault(cause, remedy)));
            }
            RebootStatus::Due => {
                if drain_annotations(state) == (Some(REBOOT_REQUIRED), Some(DRAIN_COMPLETE)) {
                    info!(what, "rebooting the node to apply settings");
                    self.reboots.record(&key)?;
                    let requested = self.configurator.firmware.reboot();
                    requested.map_err(|e| Error::Task { task: "reboot", source: Some(Box::new(e)) })?;
                }
                return Ok(Progress::Applying);
            }
            RebootStatus::Requested => return Ok(Progress::Applying),
        }
        Ok(Progress::Settled)
    }

    async fn prepare(&self, desired: &Arc<DesiredNodeConfig>) -> Result<ConfigurationPass, Error> {
        let (configurator, desired) = (self.configurator.clone(), desired.clone());
        blocking(move || configurator.prepare(&desired)).await
    }

    /// Writes the status if it changed. If the change is not urgent and the last write is recent, returns how long
    /// to wait before the next attempt.
    async fn write_status(
        &mut self,
        state: &SriovNetworkNodeState,
        pass: &ConfigurationPass,
        failures: &[Fault],
        progress: &Progress,
    ) -> Result<Option<Duration>, Error> {
        // The cache may not show the last write yet. `last_written` covers that case below.
        let cached = self.object.get();
        let previous = cached.as_ref().and_then(|state| state.status.as_ref());
        let status = build_status(state, previous, pass, failures, progress);
        let just_written = self
            .last_written
            .as_ref()
            .is_some_and(|(at, written)| *written == status && at.elapsed() < CACHE_LAG);
        if previous == Some(&status) || just_written {
            return Ok(None);
        }
        let urgent = previous.is_none_or(|previous| is_urgent(previous, &status));
        let since = self.last_written.as_ref().map(|(at, _)| at.elapsed());
        let quiet = since.map(|since| STATUS_INTERVAL.saturating_sub(since)).filter(|left| !left.is_zero());
        if let (false, Some(left)) = (urgent, quiet) {
            return Ok(Some(left));
        }
        self.object.write_status(&status).await?;
        self.last_written = Some((Instant::now(), status));
        Ok(None)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = spawn_blocking(work).await;
    done.map_err(|e| Error::Task { task: "configuration", source: Some(Box::new(e)) })?
}
