//! A real opensm over ibsim, kept by the supervisor; neither root nor namespaces are needed.

use ferroband_kernel::Root;
use ferroband_model::Guid;
use ferroband_node::opensm::{DesiredOpensm, OpensmProgram, OpensmSupervisor, SmPort};
use ferroband_partition::opensm::render;
use ferroband_partition::{Membership, MembershipTable, PKeyBase};
use ferroband_testbed::opensm::OpensmTestbed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node at the first adapter for managers of a fabric.
struct OpensmFixture {
    bed: OpensmTestbed,
    folder: TempDir,
    ports: Vec<Guid>,
}

impl OpensmFixture {
    fn new() -> Self {
        let ports: Vec<Guid> = (0..2).map(|n| Guid::new(0x0200_0000_0000_1001 + 0x10 * n)).collect();
        Self { bed: OpensmTestbed::new(&ports).unwrap(), folder: tempfile::tempdir().unwrap(), ports }
    }

    fn program(&self) -> OpensmProgram {
        let program = OpensmProgram::new(&Root::at(self.folder.path()), "opensm");
        let variables = self.bed.client_env(0).into_iter();
        variables.fold(program, |program, (name, value)| program.with_env(&name, value))
    }

    /// A daemon's supervisor, as after a start.
    fn daemon(&self) -> SupervisorFixture {
        SupervisorFixture::of(self.program())
    }

    fn file(&self) -> String {
        fs::read_to_string(self.program().partitions_file()).unwrap_or_default()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.program().log_file()).unwrap_or_default()
    }

    fn sweeps(&self) -> usize {
        self.log().matches("HEAVY SWEEP").count()
    }

    /// Waits until a port's table holds these keys. Which slot a key is in is opensm's memory.
    #[track_caller]
    fn shows(&self, port: usize, wanted: &[u16]) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.has(port, wanted) {
            let found = || self.bed.pkey_table(self.ports[port]);
            assert!(Instant::now() < until, "port {port} has {:04x?}; {}", found(), self.log());
            sleep(Duration::from_millis(20));
        }
    }

    fn has(&self, port: usize, wanted: &[u16]) -> bool {
        let found: BTreeSet<u16> = self.bed.pkey_table(self.ports[port]).unwrap().into_iter().collect();
        found == wanted.iter().copied().collect()
    }
}

impl Drop for OpensmFixture {
    fn drop(&mut self) {
        // Whatever a test has left running.
        SupervisorFixture::of(self.program()).supervisor.reconcile(None, Instant::now());
    }
}

/// A supervisor and the clock of its steps, so that nobody waits for its pauses.
struct SupervisorFixture {
    supervisor: OpensmSupervisor,
    now: Instant,
}

impl SupervisorFixture {
    fn of(program: OpensmProgram) -> Self {
        let chosen = |label: &str| match label {
            "other" => Err("the node has no InfiniBand port \"other\"".to_owned()),
            _ => Ok(SmPort {
                device: String::new(),
                port: 1,
                guid: OpensmTestbed::manager_port(0),
                lids: (0, 0),
            }),
        };
        Self { supervisor: OpensmSupervisor::new(program, chosen), now: Instant::now() }
    }

    /// A step, this much later.
    fn step(&mut self, wish: &mut DesiredOpensm, later: u64) -> (String, String) {
        self.now += Duration::from_secs(later);
        let status = self.supervisor.reconcile(Some(wish), self.now);
        wish.reported = (status.written, status.signalled);
        (status.state, status.problem.unwrap_or_default())
    }
}

fn wish(members: &[(u16, Guid)], serial: i64, signal: i64) -> DesiredOpensm {
    let table: MembershipTable =
        members.iter().map(|(key, guid)| (PKeyBase::new(*key).unwrap(), *guid, Membership::Full)).collect();
    DesiredOpensm { members: render(None, &table).unwrap(), serial, signal, ..DesiredOpensm::default() }
}

fn state(text: &str) -> (String, String) {
    (text.to_owned(), String::new())
}

#[test]
fn it_runs_when_every_host_has_the_file_and_reads_what_it_may() {
    let node = OpensmFixture::new();
    let mut daemon = node.daemon();
    let mut first = wish(&[(5, node.ports[0])], 1, 0);
    assert_eq!(daemon.step(&mut first, 1), state("stopped"));
    assert_eq!(first.reported, (1, 0), "written, and read by nobody: others may not have it yet");
    assert!(node.file().contains("fb0005=0x0005"), "{}", node.file());
    first.signal = 1;
    assert_eq!(daemon.step(&mut first, 1), state("running"));
    assert_eq!(first.reported, (1, 1));
    node.shows(0, &[0x8005, 0x7fff]);
    // The next change: in the file at once, in the tables when it may be.
    let mut next =
        DesiredOpensm { reported: first.reported, ..wish(&[(6, node.ports[0]), (5, node.ports[1])], 2, 1) };
    let before = node.sweeps();
    assert_eq!(daemon.step(&mut next, 1), state("running"));
    assert_eq!((next.reported, node.sweeps()), ((2, 1), before));
    next.signal = 2;
    daemon.step(&mut next, 1);
    node.shows(0, &[0x8006, 0x7fff]);
    node.shows(1, &[0x8005, 0x7fff]);
    // Again and again the same is no work.
    daemon.step(&mut next, 3);
    sleep(Duration::from_millis(500));
    let before = node.sweeps();
    for _ in 0..5 {
        assert_eq!(daemon.step(&mut next, 5), state("running"));
    }
    sleep(Duration::from_millis(300));
    assert_eq!(node.sweeps(), before, "no sweep without a change");
}

#[test]
fn a_daemon_that_comes_after_one_that_was_killed_takes_it_over_as_it_is() {
    let node = OpensmFixture::new();
    let mut wanted = wish(&[(5, node.ports[0])], 1, 1);
    let mut first = node.daemon();
    first.step(&mut wanted, 1);
    node.shows(0, &[0x8005, 0x7fff]);
    let (pid, sweeps) = (first.supervisor.pid(), node.sweeps());
    // Killed: nothing is done any more, nothing is written down.
    drop(first);
    let mut second = node.daemon();
    assert_eq!(second.step(&mut wanted, 1), state("running"));
    assert_eq!(second.supervisor.pid(), pid, "the same process");
    for _ in 0..3 {
        second.step(&mut wanted, 10);
    }
    sleep(Duration::from_millis(300));
    assert_eq!(node.sweeps(), sweeps, "nobody on the fabric has noticed");
    // What changed meanwhile is done.
    let mut next = DesiredOpensm { reported: wanted.reported, ..wish(&[(6, node.ports[0])], 2, 2) };
    second.step(&mut next, 1);
    node.shows(0, &[0x8006, 0x7fff]);
}

#[test]
fn one_that_is_killed_is_started_again_with_pauses() {
    let node = OpensmFixture::new();
    let mut daemon = node.daemon();
    let mut wanted = wish(&[(5, node.ports[0])], 1, 1);
    daemon.step(&mut wanted, 1);
    node.shows(0, &[0x8005, 0x7fff]);
    for round in 0..2 {
        let pid = daemon.supervisor.pid().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        // The kernel takes a moment.
        let until = Instant::now() + Duration::from_secs(10);
        let (said, problem) = loop {
            let said = daemon.step(&mut wanted, 0);
            if said.0 == "stopped" || Instant::now() > until {
                break said;
            }
        };
        assert_eq!(said, "stopped", "round {round}: not at once");
        assert!(problem.contains("has ended") && problem.contains("opensm.log"), "{problem}");
        assert_eq!(daemon.supervisor.pid(), None);
        assert_eq!(daemon.step(&mut wanted, 2 + round), state("running"));
        assert_ne!(daemon.supervisor.pid(), Some(pid));
        node.shows(0, &[0x8005, 0x7fff]);
    }
}

#[test]
fn a_program_that_is_missing_is_told_with_a_remedy_and_found_when_it_is_there() {
    let node = OpensmFixture::new();
    let file = node.folder.path().join("opensm");
    let variables = node.bed.client_env(0).into_iter();
    let program = OpensmProgram::new(&Root::at(node.folder.path()), &file);
    let program = variables.fold(program, |program, (name, value)| program.with_env(&name, value));
    let mut daemon = SupervisorFixture::of(program);
    let mut wanted = wish(&[(5, node.ports[0])], 1, 1);
    let (said, problem) = daemon.step(&mut wanted, 1);
    assert_eq!(said, "stopped");
    assert!(problem.contains("no program") && problem.contains("--opensm"), "{problem}");
    assert_eq!(wanted.reported, (1, 1), "the file is there; whenever one starts, it reads it");
    let found = ["/usr/sbin/opensm", "/usr/bin/opensm"].into_iter().find(|file| Path::new(file).exists());
    std::os::unix::fs::symlink(found.unwrap(), &file).unwrap();
    assert_eq!(daemon.step(&mut wanted, 11), state("running"));
    node.shows(0, &[0x8005, 0x7fff]);
    // A port that is not there is told, and what runs is left alone.
    let mut nowhere = DesiredOpensm { port: "other".to_owned(), ..wanted.clone() };
    let (said, problem) = daemon.step(&mut nowhere, 1);
    assert!(said == "running" && problem.contains("\"other\""), "{said} {problem}");
}

#[test]
fn a_file_that_somebody_broke_is_put_right_also_by_a_daemon_that_has_just_started() {
    let node = OpensmFixture::new();
    let path = node.program().partitions_file();
    let mut daemon = node.daemon();
    let mut wanted = wish(&[(5, node.ports[0])], 1, 1);
    daemon.step(&mut wanted, 1);
    node.shows(0, &[0x8005, 0x7fff]);
    // The administrator's own partition, outside of our marks, stays.
    let theirs = format!("storage=0x0100: ALL=limited;\n{}", node.file());
    fs::write(&path, theirs).unwrap();
    daemon.step(&mut wanted, 1);
    kill(Pid::from_raw(daemon.supervisor.pid().unwrap()), Signal::SIGHUP).unwrap();
    node.shows(0, &[0x8005, 0x7fff, 0x0100]);
    for (restarted, broken) in
        [(false, ""), (true, "Default=0x7fff: ALL=full;\nfb0005=0x5: 0xnonsense;\n"), (true, "# nothing\n")]
    {
        fs::write(&path, broken).unwrap();
        kill(Pid::from_raw(daemon.supervisor.pid().unwrap()), Signal::SIGHUP).unwrap();
        if restarted {
            daemon = node.daemon();
        }
        daemon.step(&mut wanted, 1);
        assert!(node.file().contains("fb0005=0x0005"), "{}", node.file());
        // One that was told to look at the wrong moment is told again.
        sleep(Duration::from_millis(300));
        daemon.step(&mut wanted, 4);
        node.shows(1, &[0x7fff, 0x0100]);
    }
    node.shows(0, &[0x8005, 0x7fff, 0x0100]);
}

#[test]
fn it_yields_to_a_stranger_and_stands_by_its_own() {
    let node = OpensmFixture::new();
    let stranger = node.bed.start_opensm(1, 0).unwrap();
    let mut daemon = node.daemon();
    let mut wanted = wish(&[(5, node.ports[0])], 1, 1);
    let (said, problem) = daemon.step(&mut wanted, 1);
    assert_eq!(said, "yielding");
    assert!(
        problem.contains(&OpensmTestbed::manager_port(1).to_string())
            && problem.contains("ferroband.io/subnet-manager"),
        "{problem}"
    );
    assert_eq!(daemon.supervisor.pid(), None, "it is not even started");
    // The cluster daemon says that it is one of ours.
    let mut known =
        DesiredOpensm { own_ports: BTreeSet::from([OpensmTestbed::manager_port(1)]), ..wanted.clone() };
    assert_eq!(daemon.step(&mut known, 11), state("running"));
    let until = Instant::now() + Duration::from_secs(60);
    while !node.log().contains("Entering STANDBY state") && !node.log().contains("Entering MASTER state") {
        assert!(Instant::now() < until, "{}", node.log());
        sleep(Duration::from_millis(50));
    }
    // It goes, and ours has the fabric, with the same file: also when it died while the two greeted each other, at which
    // opensm over ibsim hangs (one time of ten).
    stranger.kill();
    let until = Instant::now() + Duration::from_secs(90);
    while !node.has(0, &[0x8005, 0x7fff]) {
        assert!(Instant::now() < until, "{}", node.log());
        sleep(Duration::from_secs(1));
        daemon.step(&mut known, 1);
    }
}

#[test]
fn who_is_not_chosen_any_more_ends_it_and_nobody_elses() {
    let node = OpensmFixture::new();
    let mut daemon = node.daemon();
    let mut wanted = wish(&[], 1, 1);
    daemon.step(&mut wanted, 1);
    let pid = daemon.supervisor.pid().unwrap();
    let other = node.bed.start_opensm(1, 0).unwrap();
    // Also by a daemon that finds it so at its start.
    let mut daemon = node.daemon();
    let status = daemon.supervisor.reconcile(None, Instant::now());
    assert_eq!((status.state.as_str(), status.written), ("stopped", 0));
    let gone = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
    };
    assert!(gone(pid) && !gone(other.pid().as_raw()));
}
