//! Reconciles this node's opensm with its desired state. All functions block, and the caller supplies the
//! time.

use super::{
    OpensmProgram,
    hang_detector::HangDetector,
    port_select::SmPort,
    process_handle::OpensmHandle,
    sm_master::{SmMaster, query_sm_master},
};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostStatus};
use ferroband_model::{Fault, FaultCode, Guid};
use ferroband_partition::opensm::{LocalOpensmHost, parse_members};
use ferroband_partition::{Backoff, parse_guid};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Delay before opensm is started again after a failure.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// How long opensm must run before the failure count is reset.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Delay before SIGHUP is sent a second time. The first signal can be lost if it arrives while opensm sweeps
/// and has already read the partitions file. A second signal costs only a sweep.
const SIGNAL_REPEAT_DELAY: Duration = Duration::from_secs(3);
const MASTER_CHECK_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredOpensm {
    /// Text of Ferroband's section of opensm's partitions file.
    pub members: String,
    /// Serial number of this version of `members`; 0 if the cluster daemon has not written `members` yet.
    pub serial: i64,
    /// Highest serial number that opensm may load. All hosts have written this version to their partitions
    /// files.
    pub signal: i64,
    /// Value of the node's label `node-restriction.kubernetes.io/ferroband-subnet-manager`, which selects the port.
    pub port: String,
    /// Port GUIDs of all nodes on which Ferroband runs opensm.
    pub own_ports: BTreeSet<Guid>,
    /// The serial numbers `written` and `signalled` in the status of the SubnetManagerHost, as this or an
    /// earlier daemon reported them.
    pub reported: (i64, i64),
}

impl DesiredOpensm {
    pub fn from_object(object: &SubnetManagerHost) -> Self {
        let reported = object.status.as_ref().map(|status| (status.written, status.signalled));
        Self {
            members: object.spec.members.clone(),
            serial: object.spec.serial,
            signal: object.spec.signal,
            port: object.spec.port.clone(),
            own_ports: object.spec.managed_ports.iter().filter_map(|text| parse_guid(text)).collect(),
            reported: reported.unwrap_or_default(),
        }
    }
}

type SmPortSelector = Box<dyn Fn(&str) -> Result<SmPort, String> + Send>;

/// Keeps one opensm process and its partitions file in the desired state.
pub struct OpensmSupervisor {
    program: OpensmProgram,
    select_port: SmPortSelector,
    file: LocalOpensmHost,
    process: Option<OpensmHandle>,
    /// Whether the supervisor has already looked for an opensm that an earlier daemon started.
    adoption_tried: bool,
    running_since: Option<Instant>,
    failures: u32,
    retry_at: Option<Instant>,
    /// Why opensm is not running, as a message for the status.
    problem: Option<String>,
    signalled: i64,
    repeat_signal_at: Option<Instant>,
    master_checked_at: Option<Instant>,
    foreign_master: Option<String>,
    /// Port of the master, if it is an opensm that Ferroband runs.
    own_master: Option<Guid>,
    hang_detector: HangDetector,
    virtualization: Option<bool>,
}

impl OpensmSupervisor {
    /// `ports` selects the port for opensm from the value of the node's label
    /// `node-restriction.kubernetes.io/ferroband-subnet-manager`.
    pub fn new(
        program: OpensmProgram,
        ports: impl Fn(&str) -> Result<SmPort, String> + Send + 'static,
    ) -> Self {
        let file = LocalOpensmHost::new(program.partitions_file());
        Self {
            program,
            select_port: Box::new(ports),
            file,
            process: None,
            adoption_tried: false,
            running_since: None,
            failures: 0,
            retry_at: None,
            problem: None,
            signalled: 0,
            repeat_signal_at: None,
            master_checked_at: None,
            foreign_master: None,
            own_master: None,
            hang_detector: HangDetector::for_running(),
            virtualization: None,
        }
    }

    /// PID of opensm; `None` if it is not running.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|handle| handle.process.pid)
    }

    /// Performs the actions that are due at `now` and returns the status. If `desired` is `None`, the node
    /// must not run opensm.
    pub fn reconcile(&mut self, desired: Option<&DesiredOpensm>, now: Instant) -> SubnetManagerHostStatus {
        self.detect_process(desired, now);
        let Some(desired) = desired else {
            if let Some(process) = self.process.take() {
                process.stop();
            }
            (self.failures, self.retry_at, self.problem, self.foreign_master) = (0, None, None, None);
            return SubnetManagerHostStatus { state: "stopped".to_owned(), ..Default::default() };
        };
        let mut status = SubnetManagerHostStatus {
            virtualization: *self
                .virtualization
                .get_or_insert_with(|| self.program.supports_virtualization()),
            ..SubnetManagerHostStatus::default()
        };
        let port = (self.select_port)(&desired.port);
        status.guid = port.as_ref().map(|port| port.guid.to_string()).unwrap_or_default();
        let written =
            if desired.serial > 0 { self.write_partitions_file(desired, &mut status) } else { Ok(false) };
        match (&port, &written) {
            (_, Err(problem)) => status.problem = Some(problem.clone()),
            (Err(problem), _) => {
                status.problem = Some(self.fault(
                    FaultCode::InvalidConfig,
                    problem,
                    "set the node label node-restriction.kubernetes.io/ferroband-subnet-manager to an existing \
                     device, or to `true` for the first port with a link",
                ));
            }
            (Ok(port), Ok(_)) => self.ensure_running(port, desired, now),
        }
        status.master = self.own_master.map(|guid| guid.to_string()).unwrap_or_default();
        self.signal_reload(desired, written == Ok(true), now, &mut status);
        if status.problem.is_none() {
            status.problem = self
                .problem
                .clone()
                .or_else(|| self.foreign_master.as_deref().map(|master| self.foreign_master_problem(master)));
        }
        status.state = match (&self.process, &self.foreign_master) {
            (_, Some(_)) => "yielding",
            (Some(_), None) => "running",
            (None, None) => "stopped",
        }
        .to_owned();
        status
    }

    /// On the first call, adopts an opensm that is already running. On every call, detects that opensm has
    /// exited.
    fn detect_process(&mut self, desired: Option<&DesiredOpensm>, now: Instant) {
        if !self.adoption_tried {
            self.adoption_tried = true;
            self.process = OpensmHandle::find_running(&self.program);
            self.running_since = self.process.as_ref().map(|_| now);
            self.signalled = desired.map_or(0, |desired| desired.reported.1);
            if let Ok(text) = fs::read_to_string(self.good_copy()) {
                self.file.set_last_written(text);
            }
        }
        if self.running_since.is_some_and(|since| now.duration_since(since) > STABLE_AFTER) {
            self.failures = 0;
        }
        let exited = self.process.as_mut().is_some_and(|process| !process.poll_running());
        if exited {
            self.process = None;
            let output = self.program.last_output();
            self.record_failure(
                &format!("opensm exited and will be restarted; its last output: {output}"),
                now,
            );
        }
    }

    /// Writes the partitions file if its content differs from `desired`. Returns whether the file had been
    /// modified externally.
    fn write_partitions_file(
        &self,
        desired: &DesiredOpensm,
        status: &mut SubnetManagerHostStatus,
    ) -> Result<bool, String> {
        let to_problem = |error: ferroband_partition::Error| error.fault().to_string();
        let (table, _) = parse_members(&desired.members).map_err(to_problem)?;
        let (text, changed) = self.file.update_file(&table).map_err(to_problem)?;
        if changed {
            info!(serial = desired.serial, "partitions file written");
            // Save a copy of the partitions file. A later daemon restores the copy if it finds the file
            // broken.
            ferroband_partition::opensm::write_partitions_file(&self.good_copy(), &text)
                .map_err(to_problem)?;
        }
        status.open_default_partition = parse_members(&text).is_ok_and(|(_, open)| open);
        status.written = desired.serial;
        let restored = changed && desired.reported.0 >= desired.serial;
        if restored {
            warn!(file = %self.file.path().display(), "partitions file was modified externally; restored");
        }
        Ok(restored)
    }

    fn good_copy(&self) -> PathBuf {
        self.program.partitions_file().with_extension("good")
    }

    /// Stops opensm if it runs on a port other than `port`, and starts it on `port` if a start is allowed.
    /// Checks at intervals which subnet manager is master.
    fn ensure_running(&mut self, port: &SmPort, desired: &DesiredOpensm, now: Instant) {
        if self.process.as_ref().is_some_and(|process| process.port() != Some(port.guid)) {
            info!(device = port.device, port = port.port, "moving opensm to another port");
            self.process.take().into_iter().for_each(OpensmHandle::stop);
        }
        let retry_due = self.retry_at.is_none_or(|until| now >= until);
        // opensm may start only after all hosts have written their partitions files and all managed ports are
        // known.
        let may_start = desired.serial > 0 && desired.signal > 0 && retry_due;
        let check_master = self
            .master_checked_at
            .is_none_or(|checked_at| now.duration_since(checked_at) >= MASTER_CHECK_INTERVAL);
        if (self.process.is_some() && !check_master) || (self.process.is_none() && !may_start) {
            return;
        }
        let Some(file) = self.program.find_executable() else {
            if self.process.is_none() {
                let problem = format!("program {} not found", self.program.name().display());
                self.problem = Some(self.fault(
                    FaultCode::InvalidConfig,
                    &problem,
                    "set the Helm value node.subnetManager=true, which uses the image ferroband-tools, or set the path \
                     of opensm with --opensm",
                ));
                self.retry_at = Some(now + MASTER_CHECK_INTERVAL);
            }
            return;
        };
        self.master_checked_at = Some(now);
        let mut own_ports = desired.own_ports.clone();
        own_ports.insert(port.guid);
        let master = query_sm_master(&self.program, &port.device, port.port, port.lids, &own_ports);
        self.own_master = match &master {
            Ok(SmMaster::OwnOpensm(guid)) => *guid,
            _ => None,
        };
        match master {
            Ok(SmMaster::Foreign(master)) => {
                if self.foreign_master.is_none() {
                    warn!(master, "another subnet manager is master; opensm yields");
                }
                self.foreign_master = Some(master);
                self.retry_at = Some(now + MASTER_CHECK_INTERVAL);
                return;
            }
            Ok(master) => {
                self.foreign_master = None;
                self.restart_if_hung(&master, now);
            }
            Err(problem) => {
                if self.process.is_none() {
                    self.record_failure(
                        &format!("cannot determine the master subnet manager: {problem}"),
                        now,
                    );
                }
                return;
            }
        }
        if self.process.is_none() {
            match OpensmHandle::start(&self.program, port.guid) {
                Ok(process) => {
                    // opensm reads the current partitions file when it starts, so it needs no SIGHUP.
                    (self.process, self.running_since, self.signalled) =
                        (Some(process), Some(now), desired.signal);
                    (self.problem, self.repeat_signal_at) = (None, None);
                }
                Err(output) => {
                    self.record_failure(&format!("{} failed to start: {output}", file.display()), now);
                }
            }
        }
    }

    /// Stops opensm if it hangs; the next reconciliation starts it again.
    fn restart_if_hung(&mut self, master: &SmMaster, now: Instant) {
        if *master != SmMaster::NoMaster {
            self.hang_detector.record_master();
            return;
        }
        let Some(handle) = &self.process else {
            self.hang_detector = HangDetector::default();
            return;
        };
        if self.hang_detector.record_no_master(handle.process.cpu_ticks(), now) {
            self.process.take().into_iter().for_each(OpensmHandle::stop);
            self.record_failure(
                "opensm hangs: the fabric has no master, and opensm is idle; it will be restarted",
                now,
            );
        }
    }

    /// Sends SIGHUP if opensm may load a newer partitions file than the one that it has loaded.
    fn signal_reload(
        &mut self,
        desired: &DesiredOpensm,
        restored: bool,
        now: Instant,
        status: &mut SubnetManagerHostStatus,
    ) {
        let Some(process) = &self.process else {
            // opensm is not running. It reads the partitions file when it starts, so it needs no SIGHUP.
            status.signalled = desired.signal.min(status.written);
            return;
        };
        let new = (desired.signal > self.signalled && desired.signal <= status.written) || restored;
        let repeat = self.repeat_signal_at.is_some_and(|at| now >= at);
        if new || repeat {
            match process.send_sighup() {
                Ok(_) => {
                    self.signalled = self.signalled.max(desired.signal);
                    self.repeat_signal_at = new.then(|| now + SIGNAL_REPEAT_DELAY);
                }
                Err(problem) => warn!(problem, "cannot send SIGHUP to opensm"),
            }
        }
        status.signalled = self.signalled;
    }

    fn record_failure(&mut self, problem: &str, now: Instant) {
        warn!(problem, failures = self.failures + 1, "opensm is not running");
        self.failures += 1;
        self.retry_at = Some(now + BACKOFF.after(self.failures));
        let remedy = format!("check {}", self.program.log_file().display());
        self.problem = Some(self.fault(FaultCode::PortNotReady, problem, &remedy));
    }

    fn foreign_master_problem(&self, master: &str) -> String {
        self.fault(
            FaultCode::InvalidConfig,
            &format!("another subnet manager is master: {master}; opensm yields to it"),
            "stop the other subnet manager, or remove the label node-restriction.kubernetes.io/ferroband-subnet-manager \
             from all nodes",
        )
    }

    fn fault(&self, code: FaultCode, cause: &str, remedy: &str) -> String {
        Fault::new(code, "opensm on this node", cause, remedy).to_string()
    }
}
