//! Tests of opensm's partitions file and of several opensm hosts, without opensm.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_model::Guid;
use ferroband_partition::opensm::{
    LocalOpensmHost, Opensm, OpensmHost, OpensmHostStatus, parse, parse_members, render,
};
use ferroband_partition::{Error, Membership, MembershipTable, PartitionBatch, RequestedPKey, SubnetManager};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const LIMITED_DEFAULT: &str = "Default=0x7fff,ipoib: ALL=limited, SELF=full;\n";
const OPEN_DEFAULT: &str = "Default=0x7fff,ipoib: ALL=full, SELF=full;\n";

/// opensm hosts whose partitions files are in a temporary folder.
struct OpensmHostFixture {
    opensm: Opensm,
    folder: TempDir,
    signals: Arc<AtomicUsize>,
    statuses: Vec<Arc<Mutex<OpensmHostStatus>>>,
}

/// A host of this machine, whose signals are counted.
struct HostWithStatus {
    name: String,
    file: LocalOpensmHost,
    signals: Arc<AtomicUsize>,
    status: Arc<Mutex<OpensmHostStatus>>,
}

impl OpensmHost for HostWithStatus {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn status(&self) -> OpensmHostStatus {
        self.status.lock().unwrap().clone()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async { Ok(fs::read_to_string(self.file.path()).ok()) })
    }

    fn write<'a>(&'a self, desired: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { self.file.update_file(desired).map(drop) })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.signals.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

impl OpensmHostFixture {
    /// One host per text, which is the content of its partitions file. `None` is a missing file.
    fn new(texts: &[Option<&str>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (signals, mut statuses) = (Arc::new(AtomicUsize::new(0)), Vec::new());
        let mut hosts: Vec<Box<dyn OpensmHost>> = Vec::new();
        for (position, text) in texts.iter().enumerate() {
            let path = folder.path().join(format!("n{position}.conf"));
            if let Some(text) = text {
                fs::write(&path, text).unwrap();
            }
            let status = Arc::new(Mutex::new(OpensmHostStatus::default()));
            statuses.push(status.clone());
            hosts.push(Box::new(HostWithStatus {
                name: format!("n{position}"),
                file: LocalOpensmHost::new(path),
                signals: signals.clone(),
                status,
            }));
        }
        Self { opensm: Opensm::new(hosts), folder, signals, statuses }
    }

    fn path(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("n{host}.conf"))
    }

    fn signals(&self) -> usize {
        self.signals.load(Ordering::Relaxed)
    }

    async fn apply(&self, desired: &MembershipTable) -> Result<(), Error> {
        let desired = Arc::new(desired.clone());
        self.opensm.apply(PartitionBatch { changes: BTreeMap::new(), desired }).await
    }
}

fn table(members: &[(u16, u64)]) -> MembershipTable {
    let member = |(number, guid): &(u16, u64)| {
        (RequestedPKey::new(*number).unwrap(), Guid::new(0x0200_0000_0000_0000 + guid), Membership::Full)
    };
    members.iter().map(member).collect()
}

fn members(table: &MembershipTable) -> Vec<(u16, u64)> {
    table.iter().map(|(key, guid, _)| (key.number(), guid.value() & 0xffff)).collect()
}

#[tokio::test]
async fn change_is_written_on_every_host_and_signalled() {
    let fixture = OpensmHostFixture::new(&[Some(LIMITED_DEFAULT), Some(LIMITED_DEFAULT)]);
    assert_eq!(fixture.opensm.name(), "opensm on n0, n1");
    fixture.apply(&table(&[(5, 1), (6, 2)])).await.unwrap();
    for host in 0..2 {
        let text = fs::read_to_string(fixture.path(host)).unwrap();
        assert_eq!(members(&parse_members(&text).unwrap().0), [(5, 1), (6, 2)], "{text}");
    }
    assert_eq!(fixture.signals(), 2);
    let report = fixture.opensm.observe().await.unwrap();
    assert_eq!(members(&report.members), [(5, 1), (6, 2)]);
    assert_eq!((report.open, report.stale, report.warnings), (Some(false), false, Vec::new()));
    assert_eq!(fixture.signals(), 4, "a signal during a sweep can be lost, so it is repeated once");
    fixture.opensm.observe().await.unwrap();
    assert_eq!(fixture.signals(), 4);
}

#[tokio::test]
async fn missing_files_open_the_fabric_and_must_be_written() {
    let fixture = OpensmHostFixture::new(&[None, None]);
    let report = fixture.opensm.observe().await.unwrap();
    assert!(report.members.is_empty());
    assert_eq!((report.open, report.stale), (Some(true), true));
    assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
}

#[tokio::test]
async fn file_that_ferroband_did_not_write_must_be_written() {
    let fixture = OpensmHostFixture::new(&[Some(LIMITED_DEFAULT)]);
    assert!(fixture.opensm.observe().await.unwrap().stale, "written before this start");
    fixture.apply(&table(&[(5, 1)])).await.unwrap();
    assert!(!fixture.opensm.observe().await.unwrap().stale);
    let text = fs::read_to_string(fixture.path(0)).unwrap();
    fs::write(fixture.path(0), text.replace("=full;", "=limited;")).unwrap();
    assert!(fixture.opensm.observe().await.unwrap().stale, "changed by someone else");
    fs::write(fixture.path(0), "storage=0x0100: nonsense;\n").unwrap();
    let report = fixture.opensm.observe().await.unwrap();
    assert_eq!((report.open, report.stale), (Some(true), true), "opensm would open the fabric");
    assert!(report.members.is_empty());
}

#[tokio::test]
async fn fabric_is_open_if_one_host_would_open_it() {
    for (texts, open) in [
        ([LIMITED_DEFAULT, LIMITED_DEFAULT], false),
        ([OPEN_DEFAULT, LIMITED_DEFAULT], true),
        ([LIMITED_DEFAULT, OPEN_DEFAULT], true),
    ] {
        let report = OpensmHostFixture::new(&texts.map(Some)).opensm.observe().await.unwrap();
        assert_eq!(report.open, Some(open), "{texts:?}");
    }
}

#[tokio::test]
async fn membership_that_one_host_lacks_is_not_observed() {
    let full = render(Some(LIMITED_DEFAULT), &table(&[(5, 1), (5, 2), (6, 1)])).unwrap();
    let limited = full.replacen("0x0200000000000002=full", "0x0200000000000002=limited", 1);
    let fewer = render(Some(LIMITED_DEFAULT), &table(&[(5, 1), (5, 2)])).unwrap();
    for (second, expected, warnings) in [
        (&full, &[(5, 1), (5, 2), (6, 1)][..], 0),
        (&limited, &[(5, 1), (6, 1)], 1),
        (&fewer, &[(5, 1), (5, 2)], 1),
    ] {
        let fixture = OpensmHostFixture::new(&[Some(&full), Some(second)]);
        let report = fixture.opensm.observe().await.unwrap();
        assert_eq!(members(&report.members), expected);
        assert_eq!(report.warnings.len(), warnings, "{:?}", report.warnings);
    }
}

#[tokio::test]
async fn one_working_instance_is_enough() {
    let fixture = OpensmHostFixture::new(&[Some(LIMITED_DEFAULT), Some(LIMITED_DEFAULT)]);
    let set_problem = |host: usize| {
        fixture.statuses[host].lock().unwrap().problem = Some("the port is down".to_owned());
    };
    set_problem(0);
    assert_eq!(fixture.opensm.observe().await.unwrap().warnings, ["n0: the port is down"]);
    set_problem(1);
    let error = fixture.opensm.observe().await.unwrap_err().to_string();
    assert!(error.contains("n0: the port is down; n1: the port is down"), "{error}");
}

#[tokio::test]
async fn virtual_ports_need_support_on_every_host() {
    let fixture = OpensmHostFixture::new(&[Some(LIMITED_DEFAULT), Some(LIMITED_DEFAULT)]);
    for (host, expected) in [(0, false), (1, true)] {
        fixture.statuses[host].lock().unwrap().virtualization = true;
        assert_eq!(fixture.opensm.observe().await.unwrap().virtualization, Some(expected));
    }
}

#[tokio::test]
async fn change_without_hosts_is_an_error() {
    let fixture = OpensmHostFixture::new(&[]);
    let error = fixture.apply(&table(&[(5, 1)])).await.unwrap_err().to_string();
    assert!(error.contains("node-restriction.kubernetes.io/ferroband-subnet-manager"), "{error}");
    assert_eq!(fixture.opensm.observe().await.unwrap().virtualization, Some(false));
}

// Case: partitions 72
#[test]
fn broken_or_missing_file_is_restored_with_the_partitions_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("partitions.conf");
    let host = || LocalOpensmHost::new(&path);
    let foreign = format!("{LIMITED_DEFAULT}storage=0x0100,ipoib: 0xe41d2d0300000001=full;\n");
    fs::write(&path, &foreign).unwrap();
    let (first, desired) = (host(), table(&[(5, 1)]));
    let (text, changed) = first.update_file(&desired).unwrap();
    assert!(changed && text.starts_with(&foreign), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(first.update_file(&desired).unwrap(), (text.clone(), false));
    for broken in ["", "storage=0x0100: nonsense;\n"] {
        fs::write(&path, broken).unwrap();
        assert_eq!(first.update_file(&desired).unwrap(), (text.clone(), true));
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(first.update_file(&desired).unwrap(), (text.clone(), true));
    // After a restart, the caller passes the last text.
    fs::remove_file(&path).unwrap();
    let second = host();
    second.set_last_written(text.clone());
    assert_eq!(second.update_file(&desired).unwrap(), (text, true));
    // A valid file of someone else is not replaced by the last text.
    fs::write(&path, LIMITED_DEFAULT).unwrap();
    let (text, _) = second.update_file(&desired).unwrap();
    assert!(!text.contains("storage"), "{text}");
}

#[test]
fn unreadable_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let host = LocalOpensmHost::new(folder.path());
    let error = host.update_file(&table(&[(5, 1)])).unwrap_err();
    assert!(matches!(error, Error::File { operation: "read", .. }), "{error}");
}

#[test]
fn rendering_again_changes_nothing() {
    for existing in [None, Some(LIMITED_DEFAULT), Some("storage=0x0100,ipoib: 0xe41d2d0300000001=full;\n")] {
        let text = render(existing, &table(&[(5, 1)])).unwrap();
        assert_eq!(text.matches("Default=0x7fff").count(), 1, "{text}");
        assert_eq!(render(Some(&text), &table(&[(5, 1)])).unwrap(), text);
    }
}

#[test]
fn section_inside_of_the_section_is_an_error() {
    use ferroband_partition::opensm::{BEGIN_MARKER, END_MARKER};
    for broken in [
        format!("{BEGIN_MARKER}\n{BEGIN_MARKER}\n{END_MARKER}\n"),
        format!("{BEGIN_MARKER}\n{END_MARKER}\n{END_MARKER}\n"),
    ] {
        let error = render(Some(&broken), &table(&[(5, 1)])).unwrap_err().to_string();
        assert!(error.contains("out of order"), "{error}");
    }
}

#[test]
fn line_of_4000_characters_is_the_longest() {
    let comment = |length: usize| format!("#{}\n{LIMITED_DEFAULT}", "x".repeat(length - 1));
    assert!(parse(&comment(4000)).is_ok());
    let error = parse(&comment(4001)).unwrap_err().to_string();
    assert!(error.contains("line 1 has 4001 characters"), "{error}");
}

#[test]
fn only_comments_may_contain_other_characters_than_ascii() {
    assert!(parse(&format!("# Größe\n{LIMITED_DEFAULT}")).is_ok());
    assert!(parse("Default=0x7fff: ALL; # für alle\n").is_ok());
    let error = parse("Größe=0x7fff: ALL;\n").unwrap_err().to_string();
    assert!(error.contains("line 1 contains non-ASCII characters"), "{error}");
}

#[test]
fn flags_with_values_need_numbers() {
    for flag in ["rate=12", "mtu=5", "sl=0", "scope=0xe", "Q_Key=0x1b", "TClass=0", "FlowLabel=0"] {
        assert!(parse(&format!("a=0x5,{flag}: ALL;")).is_ok(), "{flag}");
    }
    for flag in ["rate=fast", "rate", "mtu=", "speed=3"] {
        assert!(parse(&format!("a=0x5,{flag}: ALL;")).is_err(), "{flag}");
    }
}

// opensm uses strtoull with base 0: a leading 0 means octal.
#[test]
fn numbers_are_read_as_opensm_does() {
    for (text, number) in [("10", 10), ("010", 8), ("0x10", 16), ("9", 9), ("0x7fff", 0x7fff)] {
        let file = parse(&format!("a={text}: ALL;")).unwrap();
        assert_eq!(file.statements[0].number, number, "{text}");
    }
    for text in ["0", "00", "08", "0x", "32768", "0x8000"] {
        assert!(parse(&format!("a={text}: ALL;")).is_err(), "{text}");
    }
}
