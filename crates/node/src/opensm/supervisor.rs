//! One step towards what is wanted of this node's opensm. Blocking; time is given.

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

/// Waits after an opensm that ended.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// One that ran for so long did not fail to start.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// A signal that comes while opensm sweeps, after it has read the file, can be lost; once more costs a sweep.
const SIGNAL_REPEAT_DELAY: Duration = Duration::from_secs(3);
/// How often it is asked who is master.
const MASTER_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredOpensm {
    /// Our part of the file.
    pub members: String,
    /// Its number.
    pub serial: i64,
    /// The number that may be read.
    pub signal: i64,
    /// Which port.
    pub port: String,
    /// The ports of all nodes that run one of ours.
    pub own_ports: BTreeSet<Guid>,
    /// What was told before, by an earlier daemon maybe: written, signalled.
    pub reported: (i64, i64),
}

impl DesiredOpensm {
    /// As the object says.
    pub fn from_object(object: &SubnetManagerHost) -> Self {
        let told = object.status.as_ref().map(|status| (status.written, status.signalled));
        Self {
            members: object.spec.members.clone(),
            serial: object.spec.serial,
            signal: object.spec.signal,
            port: object.spec.port.clone(),
            own_ports: object.spec.ours.iter().filter_map(|text| parse_guid(text)).collect(),
            reported: told.unwrap_or_default(),
        }
    }
}

type SmPortSelector = Box<dyn Fn(&str) -> Result<SmPort, String> + Send>;

/// Keeps one opensm.
pub struct OpensmSupervisor {
    program: OpensmProgram,
    select_port: SmPortSelector,
    file: LocalOpensmHost,
    process: Option<OpensmHandle>,
    /// Whether an earlier daemon's was looked for.
    adoption_tried: bool,
    running_since: Option<Instant>,
    failures: u32,
    retry_at: Option<Instant>,
    /// Why it does not run.
    problem: Option<String>,
    signalled: i64,
    repeat_signal_at: Option<Instant>,
    master_checked_at: Option<Instant>,
    foreign_master: Option<String>,
    hang_detector: HangDetector,
    virtualization: Option<bool>,
}

impl OpensmSupervisor {
    /// For this program, on one of these ports.
    pub fn new(
        program: OpensmProgram,
        ports: impl Fn(&str) -> Result<SmPort, String> + Send + 'static,
    ) -> Self {
        let file = LocalOpensmHost::new("this node", program.partitions_file(), || Ok(()));
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
            hang_detector: HangDetector::for_running(),
            virtualization: None,
        }
    }

    /// The process, while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|found| found.process.pid)
    }

    /// Does what is due now, and tells how it is. Without a wish the node is not chosen.
    pub fn reconcile(&mut self, wish: Option<&DesiredOpensm>, now: Instant) -> SubnetManagerHostStatus {
        self.detect_process(wish, now);
        let Some(wish) = wish else {
            if let Some(found) = self.process.take() {
                found.stop();
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
        let chosen = (self.select_port)(&wish.port);
        status.guid = chosen.as_ref().map(|chosen| chosen.guid.to_string()).unwrap_or_default();
        let written = if wish.serial > 0 { self.write_partitions_file(wish, &mut status) } else { Ok(false) };
        match (&chosen, &written) {
            (_, Err(problem)) => status.problem = Some(problem.clone()),
            (Err(problem), _) => {
                status.problem = Some(self.fault(
                    FaultCode::InvalidConfig,
                    problem,
                    "label the node with the device that has the port, or with none to take the first with a link",
                ));
            }
            (Ok(chosen), Ok(_)) => self.ensure_running(chosen, wish, now),
        }
        self.signal_reload(wish, written == Ok(true), now, &mut status);
        if status.problem.is_none() {
            status.problem = self
                .problem
                .clone()
                .or_else(|| self.foreign_master.as_deref().map(|who| self.foreign_master_problem(who)));
        }
        status.state = match (&self.process, &self.foreign_master) {
            (_, Some(_)) => "yielding",
            (Some(_), None) => "running",
            (None, None) => "stopped",
        }
        .to_owned();
        status
    }

    /// Finds what runs, once, and sees what has ended.
    fn detect_process(&mut self, wish: Option<&DesiredOpensm>, now: Instant) {
        if !self.adoption_tried {
            self.adoption_tried = true;
            self.process = OpensmHandle::find_running(&self.program);
            self.running_since = self.process.as_ref().map(|_| now);
            self.signalled = wish.map_or(0, |wish| wish.reported.1);
            if let Ok(text) = fs::read_to_string(self.good_copy()) {
                self.file.set_last_written(text);
            }
        }
        if self.running_since.is_some_and(|since| now.duration_since(since) > STABLE_AFTER) {
            self.failures = 0;
        }
        let ended = self.process.as_mut().is_some_and(|found| !found.poll_running());
        if ended {
            self.process = None;
            let words = self.program.last_output();
            self.record_failure(&format!("it has ended, and is started again; it said: {words}"), now);
        }
    }

    /// Makes the file say what is wanted. Says whether somebody had changed it behind our back.
    fn write_partitions_file(
        &self,
        wish: &DesiredOpensm,
        status: &mut SubnetManagerHostStatus,
    ) -> Result<bool, String> {
        let refuse = |error: ferroband_partition::Error| error.fault().to_string();
        let (table, _) = parse_members(&wish.members).map_err(refuse)?;
        let (text, changed) = self.file.update_file(&table).map_err(refuse)?;
        if changed {
            info!(serial = wish.serial, "partitions file written");
            // For a daemon that comes after us, if somebody breaks the file meanwhile.
            ferroband_partition::opensm::write_partitions_file(&self.good_copy(), &text).map_err(refuse)?;
        }
        status.open = parse_members(&text).is_ok_and(|(_, open)| open);
        status.written = wish.serial;
        let mended = changed && wish.reported.0 >= wish.serial;
        if mended {
            warn!(file = %self.file.path().display(), "somebody changed the partitions file; it is put right");
        }
        Ok(mended)
    }

    fn good_copy(&self) -> PathBuf {
        self.program.partitions_file().with_extension("good")
    }

    /// One on the right port runs, or is started when it may be.
    fn ensure_running(&mut self, chosen: &SmPort, wish: &DesiredOpensm, now: Instant) {
        if self.process.as_ref().is_some_and(|found| found.port() != Some(chosen.guid)) {
            info!(device = chosen.device, port = chosen.port, "opensm moves to another port");
            self.process.take().into_iter().for_each(OpensmHandle::stop);
        }
        let due = self.retry_at.is_none_or(|until| now >= until);
        // Not before every host has the file, and all ports that are ours are known.
        let may = wish.serial > 0 && wish.signal > 0 && due;
        let ask =
            self.master_checked_at.is_none_or(|asked| now.duration_since(asked) >= MASTER_CHECK_INTERVAL);
        if (self.process.is_some() && !ask) || (self.process.is_none() && !may) {
            return;
        }
        let Some(file) = self.program.find_executable() else {
            if self.process.is_none() {
                let problem = format!("there is no program {}", self.program.name().display());
                self.problem = Some(self.fault(
                    FaultCode::InvalidConfig,
                    &problem,
                    "install the package opensm where the node daemon runs (its image), or name the program with --opensm",
                ));
                self.retry_at = Some(now + MASTER_CHECK_INTERVAL);
            }
            return;
        };
        self.master_checked_at = Some(now);
        let mut ours = wish.own_ports.clone();
        ours.insert(chosen.guid);
        match query_sm_master(&self.program, &chosen.device, chosen.port, chosen.lids, &ours) {
            Ok(SmMaster::Foreign(who)) => {
                if self.foreign_master.is_none() {
                    warn!(master = who, "another subnet manager is master; ours yields");
                }
                self.foreign_master = Some(who);
                self.retry_at = Some(now + MASTER_CHECK_INTERVAL);
                return;
            }
            Ok(found) => {
                self.foreign_master = None;
                self.restart_if_hung(&found, now);
            }
            Err(problem) => {
                if self.process.is_none() {
                    self.record_failure(
                        &format!("who is master of the fabric cannot be told: {problem}"),
                        now,
                    );
                }
                return;
            }
        }
        if self.process.is_none() {
            match OpensmHandle::start(&self.program, chosen.guid) {
                Ok(found) => {
                    // It reads the file as it is now.
                    (self.process, self.running_since, self.signalled) =
                        (Some(found), Some(now), wish.signal);
                    (self.problem, self.repeat_signal_at) = (None, None);
                }
                Err(words) => {
                    self.record_failure(&format!("{} does not start: {words}", file.display()), now);
                }
            }
        }
    }

    /// Ends one that hangs; the next step starts another.
    fn restart_if_hung(&mut self, master: &SmMaster, now: Instant) {
        if *master != SmMaster::NoMaster {
            self.hang_detector.record_master();
            return;
        }
        let Some(found) = &self.process else {
            self.hang_detector = HangDetector::default();
            return;
        };
        if self.hang_detector.record_no_master(found.process.cpu_ticks(), now) {
            self.process.take().into_iter().for_each(OpensmHandle::stop);
            self.record_failure(
                "the fabric has no master, and it does nothing about it; it is started again",
                now,
            );
        }
    }

    /// Makes it read the file, if it may and has not.
    fn signal_reload(
        &mut self,
        wish: &DesiredOpensm,
        mended: bool,
        now: Instant,
        status: &mut SubnetManagerHostStatus,
    ) {
        let Some(found) = &self.process else {
            // Whenever it starts, it reads the file.
            status.signalled = wish.signal.min(status.written);
            return;
        };
        let new = (wish.signal > self.signalled && wish.signal <= status.written) || mended;
        let again = self.repeat_signal_at.is_some_and(|at| now >= at);
        if new || again {
            match found.send_sighup() {
                Ok(_) => {
                    self.signalled = self.signalled.max(wish.signal);
                    self.repeat_signal_at = new.then(|| now + SIGNAL_REPEAT_DELAY);
                }
                Err(problem) => warn!(problem, "opensm cannot be told to read its file"),
            }
        }
        status.signalled = self.signalled;
    }

    fn record_failure(&mut self, problem: &str, now: Instant) {
        warn!(problem, failures = self.failures + 1, "opensm does not run");
        self.failures += 1;
        self.retry_at = Some(now + BACKOFF.after(self.failures));
        let remedy = format!("see {}", self.program.log_file().display());
        self.problem = Some(self.fault(FaultCode::PortNotReady, problem, &remedy));
    }

    fn foreign_master_problem(&self, who: &str) -> String {
        self.fault(
            FaultCode::InvalidConfig,
            &format!("another subnet manager is master, {who}, and ours yields to it"),
            "stop the other one, or take the label ferroband.io/subnet-manager off the nodes and manage partitions there",
        )
    }

    fn fault(&self, code: FaultCode, cause: &str, remedy: &str) -> String {
        Fault::new(code, "opensm on this node", cause, remedy).to_string()
    }
}
