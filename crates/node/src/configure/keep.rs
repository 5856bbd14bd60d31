//! The loop: look, say, do, and look again.

use super::{
    ConfigurationPass, Configurator, GuidSource,
    guids::{DerivedGuids, GuidFile, PooledGuids},
    object::NodeStateObject,
    reboot::{RebootLog, RebootStatus},
    record::OriginalStateStore,
    want::DesiredNodeConfig,
};
use crate::{
    Error, advertise::DeviceState, caches::PodOwner, error::error_chain, partition::GuidClaimClient,
    pools::DevicePool,
};
use ferroband_api::sriov::{
    CURRENT_STATE, DESIRED_STATE, DRAIN_COMPLETE, DRAIN_REQUIRED, FAILED, IDLE, IN_PROGRESS, REBOOT_REQUIRED,
    SUCCEEDED, SriovNetworkNodeState, SriovNetworkNodeStateStatus, SystemState,
};
use ferroband_daemon::{condition, tasks::TaskSet, watch_cache::WatchCache};
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_model::{Fault, FaultCode};
use ferroband_partition::{ClusterSlice, GuidRange};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Client, ResourceExt};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::watch, task::spawn_blocking, time};
use tracing::{info, warn};

/// How often the hardware is looked at without a sign.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// How often while pods have to go.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// What only the hardware changed is told this often at most: pods come and go.
const STATUS_INTERVAL: Duration = Duration::from_secs(30);
/// How far the cache may be behind what was written.
const CACHE_LAG: Duration = Duration::from_secs(5);
/// The pauses after a failure.
const MIN_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// A node to keep configured.
pub struct ConfiguratorInputs {
    /// Its hardware.
    pub hardware: Arc<dyn Hardware>,
    /// Its firmware.
    pub firmware: Arc<dyn Firmware>,
    /// The API server.
    pub client: Client,
    /// Its name.
    pub node: String,
    /// Our namespace, where its state is.
    pub namespace: String,
    /// The prefix of resources.
    pub prefix: String,
    /// The pods of the node.
    pub pods: Arc<WatchCache<PodOwner>>,
    /// The kubelet's folder of device plugins.
    pub device_plugins_dir: PathBuf,
    /// What is offered, and the hardware that is in it.
    pub devices: watch::Receiver<Arc<DeviceState>>,
    /// Where the pools go.
    pub pools: watch::Sender<Arc<Vec<DevicePool>>>,
}

/// Keep the node as its state says, for ever.
pub fn start_configurator(configure: ConfiguratorInputs, tasks: &mut TaskSet<Error>) -> Result<(), Error> {
    let records = OriginalStateStore::open(configure.hardware.root())?;
    let reboots = RebootLog::open(configure.hardware.root())?;
    let object = NodeStateObject::new(configure.client.clone(), &configure.namespace, &configure.node);
    tasks.start_endless("watch of the node's state", object.clone().watch());
    let mut board = configure.devices.clone();
    let mut changes = object.cache().changes();
    let running = async move {
        let guids = guid_source(&configure).await;
        let desk = Arc::new(Configurator {
            hardware: configure.hardware,
            firmware: configure.firmware,
            original_states: records,
            guids,
            device_plugins_dir: configure.device_plugins_dir,
            pods: configure.pods.clone(),
            pools: configure.pools,
            prefix: configure.prefix,
        });
        object.cache().wait_synced().await;
        configure.pods.wait_synced().await;
        let mut keeper = NodeStateReconciler {
            object,
            configurator: desk,
            reboots,
            backoff: MIN_BACKOFF,
            last_error: String::new(),
            last_written: None,
        };
        let mut seen = board.borrow_and_update().inventory.clone();
        loop {
            let next = keeper.reconcile().await;
            let due = time::sleep(next);
            tokio::pin!(due);
            loop {
                tokio::select! {
                    () = &mut due => break,
                    changed = changes.changed() => if changed.is_ok() { break },
                    changed = board.changed() => {
                        let now = board.borrow_and_update().inventory.clone();
                        if changed.is_ok() && now != std::mem::replace(&mut seen, now.clone()) {
                            break;
                        }
                    }
                }
            }
        }
    };
    tasks.start_endless("configuration", running);
    Ok(())
}

/// The source of GUIDs, once the cluster's identity and the administrator's range are known.
async fn guid_source(configure: &ConfiguratorInputs) -> Arc<dyn GuidSource> {
    let claims = GuidClaimClient::new(configure.client.clone(), configure.node.clone());
    let mut trouble = String::new();
    let (cluster, range) = loop {
        let fault = match tokio::try_join!(claims.cluster_uid(), claims.guid_range()) {
            Ok(known) => break known,
            Err(fault) => fault.to_string(),
        };
        if fault != trouble {
            warn!(error = fault, "cannot learn what GUIDs are made of; trying again");
            trouble = fault;
        }
        time::sleep(MIN_BACKOFF).await;
    };
    let path = configure.hardware.root().path(GuidFile::PATH);
    let listed = match GuidFile::read(&path) {
        Ok(listed) => listed,
        Err(fault) => {
            warn!(%fault, "no GUIDs are given");
            // Every question is answered with what is wrong.
            Some(GuidFile::default())
        }
    };
    // In all of ib-kubernetes' own range what follows from cluster and adapter meets nothing else; in a smaller one it may.
    if range == GuidRange::DEFAULT {
        Arc::new(DerivedGuids { cluster, node: configure.node.clone(), guid_file: listed })
    } else {
        info!(first = %range.first, last = %range.last, "functions get GUIDs of this range");
        Arc::new(PooledGuids::new(claims, ClusterSlice::new(range, &cluster), listed, Handle::current()))
    }
}

struct NodeStateReconciler {
    object: NodeStateObject,
    configurator: Arc<Configurator>,
    reboots: RebootLog,
    backoff: Duration,
    last_error: String,
    /// What was told last, and when.
    last_written: Option<(Instant, SriovNetworkNodeStateStatus)>,
}

impl NodeStateReconciler {
    /// One pass; how long until the next one.
    async fn reconcile(&mut self) -> Duration {
        match self.try_reconcile().await {
            Ok(next) => {
                self.last_error.clear();
                next
            }
            Err(e) => {
                let problem = error_chain(&e);
                if problem != self.last_error {
                    warn!(error = problem, "configuration; trying again");
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
        let wanted = Arc::new(DesiredNodeConfig::from_spec(&state.spec));
        let mut failures = Vec::new();
        let mut look = self.prepare(&wanted).await?;
        for _ in 0..Configurator::MAX_ROUNDS {
            if look.ready.is_empty() || !failures.is_empty() {
                break;
            }
            self.write_status(&state, &look, &[], true).await?;
            let (desk, before) = (self.configurator.clone(), look);
            failures = blocking(move || Ok(desk.apply_ready(&before))).await?;
            look = self.prepare(&wanted).await?;
        }
        let rebooting = self.request_reboot(&state, &wanted, &look, &mut failures)?;
        let drift = self.write_status(&state, &look, &failures, rebooting).await?;
        let desired = match (rebooting, look.holders.is_empty()) {
            (true, _) => REBOOT_REQUIRED,
            (false, true) => IDLE,
            (false, false) => DRAIN_REQUIRED,
        };
        if state.annotations().get(DESIRED_STATE).map(String::as_str) != Some(desired) {
            info!(desired, holders = look.holders.len(), "what is needed to go on");
            self.object.set_desired_state(desired).await?;
        }
        if !failures.is_empty() || !look.faults.is_empty() {
            return Ok(self.next_backoff());
        }
        self.backoff = MIN_BACKOFF;
        Ok(match (look.holders.is_empty(), drift) {
            (false, _) => DRAIN_POLL_INTERVAL,
            (true, Some(due)) => due,
            (true, None) => RESYNC_INTERVAL,
        })
    }

    /// Ask for a reboot where it takes one, it is allowed, and the pods are gone. Whether one is on its way.
    fn request_reboot(
        &self,
        state: &SriovNetworkNodeState,
        wanted: &DesiredNodeConfig,
        look: &ConfigurationPass,
        failures: &mut Vec<Fault>,
    ) -> Result<bool, Error> {
        if look.reboot.is_empty() {
            return Ok(false);
        }
        let what = look.reboot.join(", ");
        let fault =
            |cause: String, remedy: &str| Fault::new(FaultCode::DeviceBusy, "this node", cause, remedy);
        let key = format!("{:?} {:?}", wanted.adapters, wanted.rdma_mode);
        match self.reboots.status(&key)? {
            RebootStatus::Ineffective => {
                let cause = format!("it was rebooted for {what}, which is still not in force");
                failures.push(fault(
                    cause,
                    "see the kernel's log and the firmware's settings; it is not rebooted again",
                ));
            }
            RebootStatus::Due if !wanted.allow_reboot => {
                let remedy = "reboot it, or set allowReboot in its SriovNetworkPoolConfig";
                failures.push(fault(format!("RebootRequired for {what}"), remedy));
            }
            RebootStatus::Due => {
                let annotation = |key: &str| state.annotations().get(key).map(String::as_str);
                if annotation(DESIRED_STATE) == Some(REBOOT_REQUIRED)
                    && annotation(CURRENT_STATE) == Some(DRAIN_COMPLETE)
                {
                    info!(what, "rebooting");
                    self.reboots.record(&key)?;
                    let asked = self.configurator.firmware.reboot();
                    asked.map_err(|e| Error::Task { task: "reboot", source: Some(Box::new(e)) })?;
                }
                return Ok(true);
            }
            RebootStatus::Requested => return Ok(true),
        }
        Ok(false)
    }

    async fn prepare(&self, wanted: &Arc<DesiredNodeConfig>) -> Result<ConfigurationPass, Error> {
        let (desk, wanted) = (self.configurator.clone(), wanted.clone());
        blocking(move || desk.prepare(&wanted)).await
    }

    /// Write the status if it says something new; when to try again, if what is new is not urgent.
    async fn write_status(
        &mut self,
        state: &SriovNetworkNodeState,
        look: &ConfigurationPass,
        failures: &[Fault],
        acting: bool,
    ) -> Result<Option<Duration>, Error> {
        // What was written a moment ago may not be in the cache yet.
        let known = self.object.get();
        let before = known.as_ref().and_then(|state| state.status.as_ref());
        let status = build_status(state, before, look, failures, acting);
        let just_told =
            self.last_written.as_ref().is_some_and(|(at, told)| *told == status && at.elapsed() < CACHE_LAG);
        if before == Some(&status) || just_told {
            return Ok(None);
        }
        let urgent = before.is_none_or(|before| {
            let key = |status: &SriovNetworkNodeStateStatus| {
                let counts: Vec<_> =
                    status.interfaces.iter().map(|i| (i.pci_address.clone(), i.num_vfs)).collect();
                (
                    status.sync_status.clone(),
                    status.last_sync_error.clone(),
                    status.observed_generation,
                    status.holders.clone(),
                    status.system.clone(),
                    counts,
                )
            };
            key(before) != key(&status)
        });
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

fn build_status(
    state: &SriovNetworkNodeState,
    before: Option<&SriovNetworkNodeStateStatus>,
    look: &ConfigurationPass,
    failures: &[Fault],
    acting: bool,
) -> SriovNetworkNodeStateStatus {
    let faults: Vec<String> = look.faults.iter().chain(failures).map(ToString::to_string).collect();
    let error = (!faults.is_empty()).then(|| faults.join("; "));
    let (sync, (holds, reason), message) = match (&error, acting, look.holders.is_empty()) {
        (_, true, _) => (IN_PROGRESS, (false, "Changing"), "functions are being made".to_owned()),
        (Some(error), ..) => (FAILED, (false, "Failed"), error.clone()),
        (None, _, false) => {
            let names: Vec<_> = look.holders.iter().map(|h| format!("{}/{}", h.namespace, h.name)).collect();
            (IN_PROGRESS, (false, "Held"), format!("waits for pods to go: {}", names.join(", ")))
        }
        (None, false, true) => (SUCCEEDED, (true, "AsWanted"), "as the policies say".to_owned()),
    };
    let generation = state.metadata.generation;
    let told = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let configured = Condition {
        observed_generation: generation,
        ..condition(told, "Configured", Some(holds), reason, message)
    };
    SriovNetworkNodeStateStatus {
        interfaces: look.observed.adapters.iter().map(|adapter| adapter.status.clone()).collect(),
        bridges: None,
        system: look
            .observed
            .rdma_mode
            .map(|mode| SystemState { rdma_mode: Some(mode.to_string()), ..SystemState::default() }),
        sync_status: Some(sync.to_owned()),
        last_sync_error: error,
        observed_generation: generation,
        holders: look.holders.clone(),
        conditions: vec![configured],
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = spawn_blocking(work).await;
    done.map_err(|e| Error::Task { task: "configuration", source: Some(Box::new(e)) })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c64_a_node_without_rdma_tells_no_mode() {
        let state = SriovNetworkNodeState::new("n", Default::default());
        let told = |mode| {
            let mut look = ConfigurationPass::default();
            look.observed.rdma_mode = mode;
            build_status(&state, None, &look, &[], false)
        };
        let without = told(None);
        assert_eq!((without.system, without.sync_status.as_deref()), (None, Some(SUCCEEDED)));
        let with = told(Some(ferroband_kernel::NetnsMode::Shared)).system.unwrap();
        assert_eq!(with.rdma_mode.as_deref(), Some("shared"));
    }
}
