//! One step towards what is wanted of this node's opensm. Blocking; time is given.

use super::{
    Program,
    chosen::Chosen,
    found::Found,
    master::{Master, master},
    vigil::Vigil,
};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostStatus};
use ferroband_model::{Fault, FaultCode, Guid};
use ferroband_partition::opensm::{Local, understood};
use ferroband_partition::{Backoff, parse_guid};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Waits after an opensm that ended.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// One that ran for so long did not fail to start.
const SETTLED: Duration = Duration::from_secs(60);
/// A signal that comes while opensm sweeps, after it has read the file, can be lost; once more costs a sweep.
const REPEAT: Duration = Duration::from_secs(3);
/// How often it is asked who is master.
const ASK: Duration = Duration::from_secs(10);

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// Our part of the file.
    pub members: String,
    /// Its number.
    pub serial: i64,
    /// The number that may be read.
    pub signal: i64,
    /// Which port.
    pub port: String,
    /// The ports of all nodes that run one of ours.
    pub ours: BTreeSet<Guid>,
    /// What was told before, by an earlier daemon maybe: written, signalled.
    pub told: (i64, i64),
}

impl Wish {
    /// As the object says.
    pub fn of(object: &SubnetManagerHost) -> Self {
        let told = object.status.as_ref().map(|status| (status.written, status.signalled));
        Self {
            members: object.spec.members.clone(),
            serial: object.spec.serial,
            signal: object.spec.signal,
            port: object.spec.port.clone(),
            ours: object.spec.ours.iter().filter_map(|text| parse_guid(text)).collect(),
            told: told.unwrap_or_default(),
        }
    }
}

type Ports = Box<dyn Fn(&str) -> Result<Chosen, String> + Send>;

/// Keeps one opensm.
pub struct Supervisor {
    program: Program,
    ports: Ports,
    file: Local,
    found: Option<Found>,
    /// Whether an earlier daemon's was looked for.
    looked: bool,
    since: Option<Instant>,
    failures: u32,
    not_before: Option<Instant>,
    /// Why it does not run.
    reason: Option<String>,
    signalled: i64,
    repeat: Option<Instant>,
    asked: Option<Instant>,
    foreign: Option<String>,
    vigil: Vigil,
    virtualization: Option<bool>,
}

impl Supervisor {
    /// For this program, on one of these ports.
    pub fn new(program: Program, ports: impl Fn(&str) -> Result<Chosen, String> + Send + 'static) -> Self {
        let file = Local::new("this node", program.partitions(), || Ok(()));
        Self {
            program,
            ports: Box::new(ports),
            file,
            found: None,
            looked: false,
            since: None,
            failures: 0,
            not_before: None,
            reason: None,
            signalled: 0,
            repeat: None,
            asked: None,
            foreign: None,
            vigil: Vigil::of_running(),
            virtualization: None,
        }
    }

    /// The process, while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.found.as_ref().map(|found| found.process.pid)
    }

    /// Does what is due now, and tells how it is. Without a wish the node is not chosen.
    pub fn step(&mut self, wish: Option<&Wish>, now: Instant) -> SubnetManagerHostStatus {
        self.look(wish, now);
        let Some(wish) = wish else {
            if let Some(found) = self.found.take() {
                found.stop();
            }
            (self.failures, self.not_before, self.reason, self.foreign) = (0, None, None, None);
            return SubnetManagerHostStatus { state: "stopped".to_owned(), ..Default::default() };
        };
        let mut status = SubnetManagerHostStatus {
            virtualization: *self.virtualization.get_or_insert_with(|| self.program.is_virtualizing()),
            ..SubnetManagerHostStatus::default()
        };
        let chosen = (self.ports)(&wish.port);
        status.guid = chosen.as_ref().map(|chosen| chosen.guid.to_string()).unwrap_or_default();
        let written = if wish.serial > 0 { self.write(wish, &mut status) } else { Ok(false) };
        match (&chosen, &written) {
            (_, Err(problem)) => status.problem = Some(problem.clone()),
            (Err(problem), _) => {
                status.problem = Some(self.fault(
                    FaultCode::InvalidConfig,
                    problem,
                    "label the node with the device that has the port, or with none to take the first with a link",
                ));
            }
            (Ok(chosen), Ok(_)) => self.run(chosen, wish, now),
        }
        self.signal(wish, written == Ok(true), now, &mut status);
        if status.problem.is_none() {
            status.problem =
                self.reason.clone().or_else(|| self.foreign.as_deref().map(|who| self.yields(who)));
        }
        status.state = match (&self.found, &self.foreign) {
            (_, Some(_)) => "yielding",
            (Some(_), None) => "running",
            (None, None) => "stopped",
        }
        .to_owned();
        status
    }

    /// Finds what runs, once, and sees what has ended.
    fn look(&mut self, wish: Option<&Wish>, now: Instant) {
        if !self.looked {
            self.looked = true;
            self.found = Found::look(&self.program);
            self.since = self.found.as_ref().map(|_| now);
            self.signalled = wish.map_or(0, |wish| wish.told.1);
            if let Ok(text) = fs::read_to_string(self.good()) {
                self.file.remember(text);
            }
        }
        if self.since.is_some_and(|since| now.duration_since(since) > SETTLED) {
            self.failures = 0;
        }
        let ended = self.found.as_mut().is_some_and(|found| !found.runs());
        if ended {
            self.found = None;
            let words = self.program.last_words();
            self.failed(&format!("it has ended, and is started again; it said: {words}"), now);
        }
    }

    /// Makes the file say what is wanted. Says whether somebody had changed it behind our back.
    fn write(&self, wish: &Wish, status: &mut SubnetManagerHostStatus) -> Result<bool, String> {
        let refuse = |error: ferroband_partition::Error| error.fault().to_string();
        let (table, _) = understood(&wish.members).map_err(refuse)?;
        let (text, changed) = self.file.put(&table).map_err(refuse)?;
        if changed {
            info!(serial = wish.serial, "partitions file written");
            // For a daemon that comes after us, if somebody breaks the file meanwhile.
            ferroband_partition::opensm::write(&self.good(), &text).map_err(refuse)?;
        }
        status.open = understood(&text).is_ok_and(|(_, open)| open);
        status.written = wish.serial;
        let mended = changed && wish.told.0 >= wish.serial;
        if mended {
            warn!(file = %self.file.path().display(), "somebody changed the partitions file; it is put right");
        }
        Ok(mended)
    }

    fn good(&self) -> PathBuf {
        self.program.partitions().with_extension("good")
    }

    /// One on the right port runs, or is started when it may be.
    fn run(&mut self, chosen: &Chosen, wish: &Wish, now: Instant) {
        if self.found.as_ref().is_some_and(|found| found.port() != Some(chosen.guid)) {
            info!(device = chosen.device, port = chosen.port, "opensm moves to another port");
            self.found.take().into_iter().for_each(Found::stop);
        }
        let due = self.not_before.is_none_or(|until| now >= until);
        // Not before every host has the file, and all ports that are ours are known.
        let may = wish.serial > 0 && wish.signal > 0 && due;
        let ask = self.asked.is_none_or(|asked| now.duration_since(asked) >= ASK);
        if (self.found.is_some() && !ask) || (self.found.is_none() && !may) {
            return;
        }
        let Some(file) = self.program.file() else {
            if self.found.is_none() {
                let problem = format!("there is no program {}", self.program.name().display());
                self.reason = Some(self.fault(
                    FaultCode::InvalidConfig,
                    &problem,
                    "install the package opensm where the node daemon runs (its image), or name the program with --opensm",
                ));
                self.not_before = Some(now + ASK);
            }
            return;
        };
        self.asked = Some(now);
        let mut ours = wish.ours.clone();
        ours.insert(chosen.guid);
        match master(&self.program, &chosen.device, chosen.port, chosen.lids, &ours) {
            Ok(Master::Foreign(who)) => {
                if self.foreign.is_none() {
                    warn!(master = who, "another subnet manager is master; ours yields");
                }
                self.foreign = Some(who);
                self.not_before = Some(now + ASK);
                return;
            }
            Ok(found) => {
                self.foreign = None;
                self.watch_over(&found, now);
            }
            Err(problem) => {
                if self.found.is_none() {
                    self.failed(&format!("who is master of the fabric cannot be told: {problem}"), now);
                }
                return;
            }
        }
        if self.found.is_none() {
            match Found::start(&self.program, chosen.guid) {
                Ok(found) => {
                    // It reads the file as it is now.
                    (self.found, self.since, self.signalled) = (Some(found), Some(now), wish.signal);
                    (self.reason, self.repeat) = (None, None);
                }
                Err(words) => self.failed(&format!("{} does not start: {words}", file.display()), now),
            }
        }
    }

    /// Ends one that hangs; the next step starts another.
    fn watch_over(&mut self, master: &Master, now: Instant) {
        if *master != Master::Nobody {
            self.vigil.seen();
            return;
        }
        let Some(found) = &self.found else {
            self.vigil = Vigil::default();
            return;
        };
        if self.vigil.missed(found.process.used(), now) {
            self.found.take().into_iter().for_each(Found::stop);
            self.failed("the fabric has no master, and it does nothing about it; it is started again", now);
        }
    }

    /// Makes it read the file, if it may and has not.
    fn signal(&mut self, wish: &Wish, mended: bool, now: Instant, status: &mut SubnetManagerHostStatus) {
        let Some(found) = &self.found else {
            // Whenever it starts, it reads the file.
            status.signalled = wish.signal.min(status.written);
            return;
        };
        let new = (wish.signal > self.signalled && wish.signal <= status.written) || mended;
        let again = self.repeat.is_some_and(|at| now >= at);
        if new || again {
            match found.hang_up() {
                Ok(_) => {
                    self.signalled = self.signalled.max(wish.signal);
                    self.repeat = new.then(|| now + REPEAT);
                }
                Err(problem) => warn!(problem, "opensm cannot be told to read its file"),
            }
        }
        status.signalled = self.signalled;
    }

    fn failed(&mut self, problem: &str, now: Instant) {
        warn!(problem, failures = self.failures + 1, "opensm does not run");
        self.failures += 1;
        self.not_before = Some(now + BACKOFF.after(self.failures));
        let remedy = format!("see {}", self.program.log().display());
        self.reason = Some(self.fault(FaultCode::PortNotReady, problem, &remedy));
    }

    fn yields(&self, who: &str) -> String {
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
