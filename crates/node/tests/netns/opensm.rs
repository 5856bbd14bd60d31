//! Tests the supervisor with a real opensm on a fabric that ibsim simulates. Needs neither root nor
//! namespaces.

use ferroband_kernel::Root;
use ferroband_model::Guid;
use ferroband_node::opensm::{DesiredOpensm, OpensmProgram, OpensmSupervisor, SmPort};
use ferroband_partition::opensm::render;
use ferroband_partition::{Membership, MembershipTable, RequestedPKey};
use ferroband_testbed::opensm::OpensmTestbed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node that runs opensm on the first subnet manager port of a simulated fabric.
struct OpensmFixture {
    bed: OpensmTestbed,
    folder: TempDir,
    ports: Vec<Guid>,
}

/// GUIDs of the fabric's ports, which stand for virtual functions.
fn port_guids() -> Vec<Guid> {
    (0..2).map(|n| Guid::new(0x0200_0000_0000_1001 + 0x10 * n)).collect()
}

impl OpensmFixture {
    fn new() -> Self {
        let ports = port_guids();
        Self { bed: OpensmTestbed::new(&ports).unwrap(), folder: tempfile::tempdir().unwrap(), ports }
    }

    fn program(&self) -> OpensmProgram {
        let program = OpensmProgram::new(&Root::at(self.folder.path()), "opensm");
        let variables = self.bed.client_env(0).into_iter();
        variables.fold(program, |program, (name, value)| program.with_env(&name, value))
    }

    /// Creates a supervisor without state, like that of a daemon that has just started.
    fn start_supervisor(&self) -> SupervisorFixture {
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

    /// Waits until a port's P_Key table contains exactly these keys, in any slot.
    #[track_caller]
    fn wait_for_pkeys(&self, port: usize, pkeys: &[u16]) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.has_pkeys(port, pkeys) {
            let found = || self.bed.pkey_table(self.ports[port]);
            assert!(Instant::now() < until, "port {port} has {:04x?}; {}", found(), self.log());
            sleep(Duration::from_millis(20));
        }
    }

    fn has_pkeys(&self, port: usize, pkeys: &[u16]) -> bool {
        let found: BTreeSet<u16> = self.bed.pkey_table(self.ports[port]).unwrap().into_iter().collect();
        found == pkeys.iter().copied().collect()
    }
}

impl Drop for OpensmFixture {
    fn drop(&mut self) {
        // Stops the opensm that the test left running.
        SupervisorFixture::of(self.program()).supervisor.reconcile(None, Instant::now());
    }
}

/// A supervisor whose clock the test advances, so that tests do not wait for its delays.
struct SupervisorFixture {
    supervisor: OpensmSupervisor,
    now: Instant,
}

impl SupervisorFixture {
    fn of(program: OpensmProgram) -> Self {
        let select_port = |label: &str| match label {
            "other" => Err("the node has no InfiniBand port \"other\"".to_owned()),
            _ => Ok(SmPort {
                device: String::new(),
                port: 1,
                guid: OpensmTestbed::manager_port(0),
                lids: (0, 0),
            }),
        };
        Self { supervisor: OpensmSupervisor::new(program, select_port), now: Instant::now() }
    }

    /// Advances the clock by `later` seconds and reconciles. Returns the state and the problem.
    fn step(&mut self, desired: &mut DesiredOpensm, later: u64) -> (String, String) {
        self.now += Duration::from_secs(later);
        let status = self.supervisor.reconcile(Some(desired), self.now);
        desired.reported = (status.written, status.signalled);
        (status.state, status.problem.unwrap_or_default())
    }
}

fn desired_members(members: &[(u16, Guid)], serial: i64, signal: i64) -> DesiredOpensm {
    let mut table: MembershipTable = members
        .iter()
        .map(|(key, guid)| (RequestedPKey::new(*key).unwrap(), *guid, Membership::Full))
        .collect();
    port_guids().into_iter().for_each(|guid| table.add_function(guid));
    DesiredOpensm { members: render(None, &table).unwrap(), serial, signal, ..DesiredOpensm::default() }
}

fn state(text: &str) -> (String, String) {
    (text.to_owned(), String::new())
}

#[test]
fn opensm_starts_once_all_hosts_have_the_file_and_loads_allowed_serials() {
    let node = OpensmFixture::new();
    let mut daemon = node.start_supervisor();
    let mut first = desired_members(&[(5, node.ports[0])], 1, 0);
    assert_eq!(daemon.step(&mut first, 1), state("stopped"));
    assert_eq!(first.reported, (1, 0), "written but not loaded: other hosts may not have it yet");
    assert!(node.file().contains("fb0005=0x0005"), "{}", node.file());
    first.signal = 1;
    assert_eq!(daemon.step(&mut first, 1), state("running"));
    assert_eq!(first.reported, (1, 1));
    node.wait_for_pkeys(0, &[0x8005, 0x7fff]);
    // The next change must be written to the partitions file at once. opensm must load it only when `signal`
    // allows that, and the P_Key tables must then contain it.
    let mut next = DesiredOpensm {
        reported: first.reported,
        ..desired_members(&[(6, node.ports[0]), (5, node.ports[1])], 2, 1)
    };
    let before = node.sweeps();
    assert_eq!(daemon.step(&mut next, 1), state("running"));
    assert_eq!((next.reported, node.sweeps()), ((2, 1), before));
    next.signal = 2;
    daemon.step(&mut next, 1);
    node.wait_for_pkeys(0, &[0x8006, 0x7fff]);
    node.wait_for_pkeys(1, &[0x8005, 0x7fff]);
    // Reconciling the same state again must have no effect.
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
fn restarted_daemon_adopts_the_running_opensm() {
    let node = OpensmFixture::new();
    let mut desired = desired_members(&[(5, node.ports[0])], 1, 1);
    let mut first = node.start_supervisor();
    first.step(&mut desired, 1);
    node.wait_for_pkeys(0, &[0x8005, 0x7fff]);
    let (pid, sweeps) = (first.supervisor.pid(), node.sweeps());
    // Simulates a daemon that is killed without cleaning up, so opensm keeps running.
    drop(first);
    let mut second = node.start_supervisor();
    assert_eq!(second.step(&mut desired, 1), state("running"));
    assert_eq!(second.supervisor.pid(), pid, "the same process");
    for _ in 0..3 {
        second.step(&mut desired, 10);
    }
    sleep(Duration::from_millis(300));
    assert_eq!(node.sweeps(), sweeps, "the fabric was not disturbed");
    // The new daemon must apply further changes to the adopted opensm.
    let mut next =
        DesiredOpensm { reported: desired.reported, ..desired_members(&[(6, node.ports[0])], 2, 2) };
    second.step(&mut next, 1);
    node.wait_for_pkeys(0, &[0x8006, 0x7fff]);
}

#[test]
fn killed_opensm_is_restarted_with_backoff() {
    let node = OpensmFixture::new();
    let mut daemon = node.start_supervisor();
    let mut desired = desired_members(&[(5, node.ports[0])], 1, 1);
    daemon.step(&mut desired, 1);
    node.wait_for_pkeys(0, &[0x8005, 0x7fff]);
    for round in 0..2 {
        let pid = daemon.supervisor.pid().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        // The kernel takes a moment to end the process, so wait until the supervisor notices that opensm has
        // exited.
        let until = Instant::now() + Duration::from_secs(10);
        let (status, problem) = loop {
            let status = daemon.step(&mut desired, 0);
            if status.0 == "stopped" || Instant::now() > until {
                break status;
            }
        };
        assert_eq!(status, "stopped", "round {round}: not restarted immediately");
        assert!(problem.contains("opensm exited") && problem.contains("opensm.log"), "{problem}");
        assert_eq!(daemon.supervisor.pid(), None);
        assert_eq!(daemon.step(&mut desired, 2 + round), state("running"));
        assert_ne!(daemon.supervisor.pid(), Some(pid));
        node.wait_for_pkeys(0, &[0x8005, 0x7fff]);
    }
}

#[test]
fn missing_program_is_reported_with_a_remedy_and_found_once_installed() {
    let node = OpensmFixture::new();
    let file = node.folder.path().join("opensm");
    let variables = node.bed.client_env(0).into_iter();
    let program = OpensmProgram::new(&Root::at(node.folder.path()), &file);
    let program = variables.fold(program, |program, (name, value)| program.with_env(&name, value));
    let mut daemon = SupervisorFixture::of(program);
    let mut desired = desired_members(&[(5, node.ports[0])], 1, 1);
    let (status, problem) = daemon.step(&mut desired, 1);
    assert_eq!(status, "stopped");
    assert!(problem.contains("not found") && problem.contains("node.subnetManager=true"), "{problem}");
    assert_eq!(desired.reported, (1, 1), "the file is written; opensm reads it when it starts");
    let found = ["/usr/sbin/opensm", "/usr/bin/opensm"].into_iter().find(|file| Path::new(file).exists());
    std::os::unix::fs::symlink(found.unwrap(), &file).unwrap();
    assert_eq!(daemon.step(&mut desired, 11), state("running"));
    node.wait_for_pkeys(0, &[0x8005, 0x7fff]);
    // A missing port must be reported, and the running opensm must not be stopped.
    let mut nowhere = DesiredOpensm { port: "other".to_owned(), ..desired.clone() };
    let (status, problem) = daemon.step(&mut nowhere, 1);
    assert!(status == "running" && problem.contains("\"other\""), "{status} {problem}");
}

#[test]
fn modified_partitions_file_is_restored_also_by_a_restarted_daemon() {
    let node = OpensmFixture::new();
    let path = node.program().partitions_file();
    let mut daemon = node.start_supervisor();
    let mut desired = desired_members(&[(5, node.ports[0])], 1, 1);
    daemon.step(&mut desired, 1);
    node.wait_for_pkeys(0, &[0x8005, 0x7fff]);
    // A partition that the administrator defines outside Ferroband's markers must be kept.
    let with_admin_partition = format!("storage=0x0100: ALL=limited;\n{}", node.file());
    fs::write(&path, with_admin_partition).unwrap();
    daemon.step(&mut desired, 1);
    kill(Pid::from_raw(daemon.supervisor.pid().unwrap()), Signal::SIGHUP).unwrap();
    node.wait_for_pkeys(0, &[0x8005, 0x7fff, 0x0100]);
    for (restarted, broken) in
        [(false, ""), (true, "Default=0x7fff: ALL=full;\nfb0005=0x5: 0xnonsense;\n"), (true, "# nothing\n")]
    {
        fs::write(&path, broken).unwrap();
        kill(Pid::from_raw(daemon.supervisor.pid().unwrap()), Signal::SIGHUP).unwrap();
        if restarted {
            daemon = node.start_supervisor();
        }
        daemon.step(&mut desired, 1);
        assert!(node.file().contains("fb0005=0x0005"), "{}", node.file());
        // The repeated SIGHUP makes opensm load the file even if the first one was lost.
        sleep(Duration::from_millis(300));
        daemon.step(&mut desired, 4);
        node.wait_for_pkeys(1, &[0x7fff, 0x0100]);
    }
    node.wait_for_pkeys(0, &[0x8005, 0x7fff, 0x0100]);
}

#[test]
fn opensm_yields_to_a_foreign_master_and_stands_by_for_managed_ones() {
    let node = OpensmFixture::new();
    let foreign = node.bed.start_opensm(1, 0).unwrap();
    let mut daemon = node.start_supervisor();
    let mut desired = desired_members(&[(5, node.ports[0])], 1, 1);
    let (status, problem) = daemon.step(&mut desired, 1);
    assert_eq!(status, "yielding");
    assert!(
        problem.contains(&OpensmTestbed::manager_port(1).to_string())
            && problem.contains("node-restriction.kubernetes.io/ferroband-subnet-manager"),
        "{problem}"
    );
    assert_eq!(daemon.supervisor.pid(), None, "opensm is not started");
    // The cluster daemon now lists the port of the other opensm among Ferroband's own ports, so the
    // supervised opensm must start beside it.
    let mut known =
        DesiredOpensm { own_ports: BTreeSet::from([OpensmTestbed::manager_port(1)]), ..desired.clone() };
    assert_eq!(daemon.step(&mut known, 11), state("running"));
    let until = Instant::now() + Duration::from_secs(60);
    while !node.log().contains("Entering STANDBY state") && !node.log().contains("Entering MASTER state") {
        assert!(Instant::now() < until, "{}", node.log());
        sleep(Duration::from_millis(50));
    }
    // When the other opensm dies, the supervised opensm must take over with the same partitions file. This
    // must also work if the other one dies during the SMInfo exchange, which makes opensm over ibsim hang
    // (about one time in ten).
    foreign.kill();
    let until = Instant::now() + Duration::from_secs(90);
    while !node.has_pkeys(0, &[0x8005, 0x7fff]) {
        assert!(Instant::now() < until, "{}", node.log());
        sleep(Duration::from_secs(1));
        daemon.step(&mut known, 1);
    }
}

#[test]
fn node_that_loses_its_label_stops_only_its_own_opensm() {
    let node = OpensmFixture::new();
    let mut daemon = node.start_supervisor();
    let mut desired = desired_members(&[], 1, 1);
    daemon.step(&mut desired, 1);
    let pid = daemon.supervisor.pid().unwrap();
    let other = node.bed.start_opensm(1, 0).unwrap();
    // A daemon that has just started must stop the opensm that an earlier daemon started, and no other.
    let mut daemon = node.start_supervisor();
    let status = daemon.supervisor.reconcile(None, Instant::now());
    assert_eq!((status.state.as_str(), status.written), ("stopped", 0));
    let gone = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
    };
    assert!(gone(pid) && !gone(other.pid().as_raw()));
}
