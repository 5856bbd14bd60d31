//! The loop: look, say, do, and look again.

use super::{
    Desk, GuidSource, Look,
    guids::{Derived, Listed, Pooled},
    object::Object,
    reboot::{Reboot, Reboots},
    record::Records,
    want::Wanted,
};
use crate::{Error, advertise::Board, caches::PodOwner, error::chain, partition::Claims, pools::Pool};
use ferroband_api::sriov::{
    CURRENT_STATE, DESIRED_STATE, DRAIN_COMPLETE, DRAIN_REQUIRED, FAILED, IDLE, IN_PROGRESS, REBOOT_REQUIRED,
    SUCCEEDED, SriovNetworkNodeState, SriovNetworkNodeStateStatus, SystemState,
};
use ferroband_daemon::{condition, tasks::Tasks, watching::Cache};
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_model::{Fault, FaultCode};
use ferroband_partition::{GuidRange, Share};
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
const AGAIN: Duration = Duration::from_secs(30);
/// How often while pods have to go.
const WAITING: Duration = Duration::from_secs(1);
/// What only the hardware changed is told this often at most: pods come and go.
const QUIET: Duration = Duration::from_secs(30);
/// How far the cache may be behind what was written.
const BEHIND: Duration = Duration::from_secs(5);
/// The pauses after a failure.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// A node to keep configured.
pub struct Configure {
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
    pub pods: Arc<Cache<PodOwner>>,
    /// The kubelet's folder of device plugins.
    pub kubelet: PathBuf,
    /// What is offered, and the hardware that is in it.
    pub board: watch::Receiver<Arc<Board>>,
    /// Where the pools go.
    pub pools: watch::Sender<Arc<Vec<Pool>>>,
}

/// Keep the node as its state says, for ever.
pub fn keep_configured(configure: Configure, tasks: &mut Tasks<Error>) -> Result<(), Error> {
    let records = Records::under(configure.hardware.root())?;
    let reboots = Reboots::under(configure.hardware.root())?;
    let object = Object::new(configure.client.clone(), &configure.namespace, &configure.node);
    tasks.start_endless("watch of the node's state", object.clone().watch());
    let mut board = configure.board.clone();
    let mut changes = object.cache().changes();
    let running = async move {
        let guids = guids(&configure).await;
        let desk = Arc::new(Desk {
            hardware: configure.hardware,
            firmware: configure.firmware,
            records,
            guids,
            kubelet: configure.kubelet,
            pods: configure.pods.clone(),
            pools: configure.pools,
            prefix: configure.prefix,
        });
        object.cache().complete().await;
        configure.pods.complete().await;
        let mut keeper =
            Keeper { object, desk, reboots, pause: SHORTEST, trouble: String::new(), told: None };
        let mut seen = board.borrow_and_update().inventory.clone();
        loop {
            let next = keeper.pass().await;
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
async fn guids(configure: &Configure) -> Arc<dyn GuidSource> {
    let claims = Claims::new(configure.client.clone(), configure.node.clone());
    let mut trouble = String::new();
    let (cluster, range) = loop {
        let fault = match tokio::try_join!(claims.cluster(), claims.range()) {
            Ok(known) => break known,
            Err(fault) => fault.to_string(),
        };
        if fault != trouble {
            warn!(error = fault, "cannot learn what GUIDs are made of; trying again");
            trouble = fault;
        }
        time::sleep(SHORTEST).await;
    };
    let path = configure.hardware.root().path(Listed::PATH);
    let listed = match Listed::read(&path) {
        Ok(listed) => listed,
        Err(fault) => {
            warn!(%fault, "no GUIDs are given");
            // Every question is answered with what is wrong.
            Some(Listed::default())
        }
    };
    // In all of ib-kubernetes' own range what follows from cluster and adapter meets nothing else; in a smaller one it may.
    if range == GuidRange::DEFAULT {
        Arc::new(Derived { cluster, node: configure.node.clone(), listed })
    } else {
        info!(first = %range.first, last = %range.last, "functions get GUIDs of this range");
        Arc::new(Pooled::new(claims, Share::of(range, &cluster), listed, Handle::current()))
    }
}

struct Keeper {
    object: Object,
    desk: Arc<Desk>,
    reboots: Reboots,
    pause: Duration,
    trouble: String,
    /// What was told last, and when.
    told: Option<(Instant, SriovNetworkNodeStateStatus)>,
}

impl Keeper {
    /// One pass; how long until the next one.
    async fn pass(&mut self) -> Duration {
        match self.attempt().await {
            Ok(next) => {
                self.trouble.clear();
                next
            }
            Err(e) => {
                let problem = chain(&e);
                if problem != self.trouble {
                    warn!(error = problem, "configuration; trying again");
                    self.trouble = problem;
                }
                self.later()
            }
        }
    }

    fn later(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
        pause
    }

    async fn attempt(&mut self) -> Result<Duration, Error> {
        let Some(state) = self.object.get() else {
            self.object.create().await?;
            return Ok(WAITING);
        };
        let wanted = Arc::new(Wanted::of(&state.spec));
        let mut failures = Vec::new();
        let mut look = self.look(&wanted).await?;
        for _ in 0..Desk::ROUNDS {
            if look.ready.is_empty() || !failures.is_empty() {
                break;
            }
            self.tell(&state, &look, &[], true).await?;
            let (desk, before) = (self.desk.clone(), look);
            failures = blocking(move || Ok(desk.act(&before))).await?;
            look = self.look(&wanted).await?;
        }
        let rebooting = self.reboot(&state, &wanted, &look, &mut failures)?;
        let drift = self.tell(&state, &look, &failures, rebooting).await?;
        let desired = match (rebooting, look.holders.is_empty()) {
            (true, _) => REBOOT_REQUIRED,
            (false, true) => IDLE,
            (false, false) => DRAIN_REQUIRED,
        };
        if state.annotations().get(DESIRED_STATE).map(String::as_str) != Some(desired) {
            info!(desired, holders = look.holders.len(), "what is needed to go on");
            self.object.desire(desired).await?;
        }
        if !failures.is_empty() || !look.faults.is_empty() {
            return Ok(self.later());
        }
        self.pause = SHORTEST;
        Ok(match (look.holders.is_empty(), drift) {
            (false, _) => WAITING,
            (true, Some(due)) => due,
            (true, None) => AGAIN,
        })
    }

    /// Ask for a reboot where it takes one, it is allowed, and the pods are gone. Whether one is on its way.
    fn reboot(
        &self,
        state: &SriovNetworkNodeState,
        wanted: &Wanted,
        look: &Look,
        failures: &mut Vec<Fault>,
    ) -> Result<bool, Error> {
        if look.reboot.is_empty() {
            return Ok(false);
        }
        let what = look.reboot.join(", ");
        let fault =
            |cause: String, remedy: &str| Fault::new(FaultCode::DeviceBusy, "this node", cause, remedy);
        let key = format!("{:?} {:?}", wanted.adapters, wanted.mode);
        match self.reboots.state(&key)? {
            Reboot::Useless => {
                let cause = format!("it was rebooted for {what}, which is still not in force");
                failures.push(fault(
                    cause,
                    "see the kernel's log and the firmware's settings; it is not rebooted again",
                ));
            }
            Reboot::Due if !wanted.reboot => {
                let remedy = "reboot it, or set allowReboot in its SriovNetworkPoolConfig";
                failures.push(fault(format!("RebootRequired for {what}"), remedy));
            }
            Reboot::Due => {
                let annotation = |key: &str| state.annotations().get(key).map(String::as_str);
                if annotation(DESIRED_STATE) == Some(REBOOT_REQUIRED)
                    && annotation(CURRENT_STATE) == Some(DRAIN_COMPLETE)
                {
                    info!(what, "rebooting");
                    self.reboots.note(&key)?;
                    let asked = self.desk.firmware.reboot();
                    asked.map_err(|e| Error::Task { task: "reboot", source: Some(Box::new(e)) })?;
                }
                return Ok(true);
            }
            Reboot::Asked => return Ok(true),
        }
        Ok(false)
    }

    async fn look(&self, wanted: &Arc<Wanted>) -> Result<Look, Error> {
        let (desk, wanted) = (self.desk.clone(), wanted.clone());
        blocking(move || desk.look(&wanted)).await
    }

    /// Write the status if it says something new; when to try again, if what is new is not urgent.
    async fn tell(
        &mut self,
        state: &SriovNetworkNodeState,
        look: &Look,
        failures: &[Fault],
        acting: bool,
    ) -> Result<Option<Duration>, Error> {
        // What was written a moment ago may not be in the cache yet.
        let known = self.object.get();
        let before = known.as_ref().and_then(|state| state.status.as_ref());
        let status = status(state, before, look, failures, acting);
        let just_told = self.told.as_ref().is_some_and(|(at, told)| *told == status && at.elapsed() < BEHIND);
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
        let since = self.told.as_ref().map(|(at, _)| at.elapsed());
        let quiet = since.map(|since| QUIET.saturating_sub(since)).filter(|left| !left.is_zero());
        if let (false, Some(left)) = (urgent, quiet) {
            return Ok(Some(left));
        }
        self.object.tell(&status).await?;
        self.told = Some((Instant::now(), status));
        Ok(None)
    }
}

fn status(
    state: &SriovNetworkNodeState,
    before: Option<&SriovNetworkNodeStateStatus>,
    look: &Look,
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
        interfaces: look.survey.adapters.iter().map(|adapter| adapter.told.clone()).collect(),
        bridges: None,
        system: look
            .survey
            .mode
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
            let mut look = Look::default();
            look.survey.mode = mode;
            status(&state, None, &look, &[], false)
        };
        let without = told(None);
        assert_eq!((without.system, without.sync_status.as_deref()), (None, Some(SUCCEEDED)));
        let with = told(Some(ferroband_kernel::NetnsMode::Shared)).system.unwrap();
        assert_eq!(with.rdma_mode.as_deref(), Some("shared"));
    }
}
