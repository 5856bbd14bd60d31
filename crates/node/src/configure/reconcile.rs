//! Reconciles the node with its SriovNetworkNodeState.

use super::{
    Action, ConfigurationPass, Configurator, DesiredNodeConfig,
    drain_request::{drain_annotations, next_drain_request},
    object::NodeStateObject,
    reboot::{RebootLog, RebootStatus},
    report::{Progress, build_status, deferred_message, is_urgent},
};
use crate::{
    Error,
    error::{blocking, error_chain},
};
use ferroband_api::sriov::{
    DRAIN_COMPLETE, DRAIN_REQUIRED, IDLE, REBOOT_REQUIRED, SriovNetworkNodeState, SriovNetworkNodeStateStatus,
};
use ferroband_model::{Fault, FaultCode};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
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
pub(super) const MIN_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

pub struct NodeStateReconciler {
    object: NodeStateObject,
    configurator: Arc<Configurator>,
    reboots: RebootLog,
    backoff: Duration,
    last_error: String,
    /// The message about changes that wait for pods, as it was logged last.
    deferred: Option<String>,
    /// The actions that the kernel refused in the last pass. They are tried again without another status update.
    refused: Vec<Action>,
    /// Time and content of the last status update; `None` before the first update.
    last_written: Option<(Instant, SriovNetworkNodeStateStatus)>,
}

impl NodeStateReconciler {
    pub fn new(object: NodeStateObject, configurator: Arc<Configurator>, reboots: RebootLog) -> Self {
        Self {
            object,
            configurator,
            reboots,
            backoff: MIN_BACKOFF,
            last_error: String::new(),
            deferred: None,
            refused: Vec::new(),
            last_written: None,
        }
    }

    /// Whether a change waits until a pod is gone.
    pub fn waits_for_pods(&self) -> bool {
        self.deferred.is_some()
    }

    /// Runs one configuration pass and returns the time until the next one.
    pub async fn reconcile(&mut self) -> Duration {
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
        let (mut failures, mut refused) = (Vec::new(), Vec::new());
        let mut pass = self.prepare(&desired, Vec::new()).await?;
        for _ in 0..Configurator::MAX_ROUNDS {
            if pass.diff.actions.is_empty() || !failures.is_empty() {
                break;
            }
            if pass.diff.actions != self.refused {
                self.write_status(&state, &pass, &[], &Progress::Applying).await?;
            }
            let (configurator, actions) = (self.configurator.clone(), pass.diff.actions);
            let applied = blocking("configuration", move || configurator.apply(&actions)).await?;
            failures = applied.failures;
            refused.extend(applied.refused);
            pass = self.prepare(&desired, refused.clone()).await?;
        }
        self.refused = refused;
        self.log_deferred(&pass);
        let progress = self.request_reboot(&state, &desired, &pass, &mut failures)?;
        let retry_in = self.write_status(&state, &pass, &failures, &progress).await?;
        let request = match (&progress, pass.diff.holders.is_empty()) {
            (Progress::Applying, _) => REBOOT_REQUIRED,
            (_, true) => IDLE,
            (_, false) => DRAIN_REQUIRED,
        };
        let (current_request, drain_state) = drain_annotations(&state);
        let next_request = next_drain_request(request, current_request, drain_state);
        if current_request != Some(next_request) {
            info!(
                desired_state = next_request,
                holders = pass.diff.holders.len(),
                "changing the desired-state annotation"
            );
            self.object.set_desired_state(next_request).await?;
        }
        if !failures.is_empty()
            || !pass.diff.faults.is_empty()
            || matches!(progress, Progress::RebootRequired(_))
        {
            return Ok(self.next_backoff());
        }
        self.backoff = MIN_BACKOFF;
        Ok(match (pass.diff.holders.is_empty(), retry_in) {
            (false, _) => DRAIN_POLL_INTERVAL,
            (true, Some(retry_in)) => retry_in,
            (true, None) => RESYNC_INTERVAL,
        })
    }

    /// Logs the changes that wait for a pod, whenever they change.
    fn log_deferred(&mut self, pass: &ConfigurationPass) {
        let deferred = deferred_message(&pass.diff.waiting);
        if deferred != self.deferred {
            self.deferred = deferred;
            if let Some(message) = &self.deferred {
                info!("{message}");
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
        if pass.diff.reboot.is_empty() {
            return Ok(Progress::Settled);
        }
        let what = pass.diff.reboot.join(", ");
        let fault =
            |cause: String, remedy: &str| Fault::new(FaultCode::DeviceBusy, "this node", cause, remedy);
        match self.reboots.status(desired)? {
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
                    self.reboots.record(desired)?;
                    let requested = self.configurator.firmware.reboot();
                    requested.map_err(|e| Error::Task { task: "reboot", source: Some(Box::new(e)) })?;
                }
                return Ok(Progress::Applying);
            }
            RebootStatus::Requested => return Ok(Progress::Applying),
        }
        Ok(Progress::Settled)
    }

    async fn prepare(
        &self,
        desired: &Arc<DesiredNodeConfig>,
        refused: Vec<Action>,
    ) -> Result<ConfigurationPass, Error> {
        let (configurator, desired) = (self.configurator.clone(), desired.clone());
        blocking("configuration", move || configurator.prepare(&desired, refused)).await?
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
