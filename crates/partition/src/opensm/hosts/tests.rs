use super::*;
use crate::opensm::OpensmHostStatus;
use crate::{Membership, RequestedPKey};
use ferroband_model::Guid;

/// A host whose partitions file is a string in memory.
#[derive(Clone, Default)]
struct MemoryHost {
    name: &'static str,
    state: Arc<Mutex<MemoryHostState>>,
}

#[derive(Default)]
struct MemoryHostState {
    text: Option<String>,
    dead: bool,
    signals: usize,
    status: OpensmHostStatus,
}

impl MemoryHost {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, MemoryHostState> {
        self.state.lock()
    }

    fn set_dead(&self, dead: bool) {
        self.state().dead = dead;
    }

    fn has(&self, number: u16) -> bool {
        let text = self.state().text.clone().unwrap_or_default();
        parse_members(&text).is_ok_and(|(members, _)| members.keys().any(|key| key.number() == number))
    }

    fn signals(&self) -> usize {
        self.state().signals
    }
}

impl OpensmHost for MemoryHost {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn status(&self) -> OpensmHostStatus {
        self.state().status.clone()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async { Ok(self.state().text.clone()) })
    }

    fn write<'a>(&'a self, desired: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            if self.state().dead {
                return Err(Error::Host { host: self.name.to_owned(), problem: "no answer".to_owned() });
            }
            let text = render(None, desired)?;
            self.state().text = Some(text);
            Ok(())
        })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.state().signals += 1;
            Ok(())
        })
    }
}

fn table(numbers: &[u16]) -> Arc<MembershipTable> {
    let member =
        |number: &u16| (RequestedPKey::new(*number).unwrap(), Guid::new(0x0200_0001), Membership::Full);
    Arc::new(numbers.iter().map(member).collect())
}

fn batch(desired: &Arc<MembershipTable>) -> PartitionBatch {
    PartitionBatch { changes: std::collections::BTreeMap::default(), desired: desired.clone() }
}

fn pair() -> (MemoryHost, MemoryHost, Opensm) {
    let (one, two) = (MemoryHost::new("n1"), MemoryHost::new("n2"));
    let opensm = Opensm::new(vec![Box::new(one.clone()), Box::new(two.clone())]);
    (one, two, opensm)
}

// Case: partitions 86
#[tokio::test]
async fn dead_host_does_not_stop_changes_and_is_updated_when_it_is_back() {
    let (alive, dead, opensm) = pair();
    opensm.apply(batch(&table(&[5]))).await.unwrap();
    dead.set_dead(true);
    opensm.apply(batch(&table(&[5, 6]))).await.unwrap();
    assert!(alive.has(6) && !dead.has(6));
    assert_eq!((alive.signals(), dead.signals()), (2, 1));
    // The dead host's old file must not make the new member appear to be missing.
    let report = opensm.observe().await.unwrap();
    assert!(report.members.has_same_members(&table(&[5, 6])));
    assert!(report.outdated_hosts[0].contains("n2") && report.outdated_hosts[0].contains("no answer"));
    assert!(!report.stale);
    let signals = alive.signals();
    dead.set_dead(false);
    opensm.observe().await.unwrap();
    assert!(dead.has(6), "the host is updated without another change");
    assert!(dead.signals() > 1);
    assert_eq!(alive.signals(), signals, "a signal costs a sweep, and the living host needs none");
}

#[tokio::test]
async fn change_fails_if_no_host_takes_it() {
    let (one, two, opensm) = pair();
    opensm.apply(batch(&table(&[5]))).await.unwrap();
    one.set_dead(true);
    two.set_dead(true);
    let error = opensm.apply(batch(&table(&[6]))).await.unwrap_err().to_string();
    assert!(error.contains("n1") && error.contains("n2") && error.contains("no answer"), "{error}");
    assert!(one.has(5) && two.has(5));
    // What the fabric has is unknown while no host answers, and known again when one does.
    assert!(opensm.observe().await.is_err());
    one.set_dead(false);
    let report = opensm.observe().await.unwrap();
    assert!(report.members.has_same_members(&table(&[6])));
    assert!(report.stale, "the change did not succeed, so it is sent again");
}

// Case: partitions 86
#[tokio::test]
async fn change_fails_while_the_master_is_the_host_that_is_not_updated() {
    let (alive, master, opensm) = pair();
    opensm.apply(batch(&table(&[5]))).await.unwrap();
    let port = Some(Guid::new(7));
    master.state().status.port = port;
    alive.state().status.master = port;
    master.set_dead(true);
    let error = opensm.apply(batch(&table(&[6]))).await.unwrap_err().to_string();
    assert!(error.contains("n2") && error.contains("master"), "{error}");
    // The living host takes over.
    alive.state().status.master = Some(Guid::new(8));
    opensm.apply(batch(&table(&[6]))).await.unwrap();
    assert!(alive.has(6));
    assert_eq!(opensm.observe().await.unwrap().outdated_hosts.len(), 1);
}

#[tokio::test]
async fn host_that_lost_its_file_gets_it_again() {
    let (one, two, opensm) = pair();
    opensm.apply(batch(&table(&[5]))).await.unwrap();
    two.state().text = None;
    let report = opensm.observe().await.unwrap();
    assert_eq!((report.members.len(), report.outdated_hosts.len()), (1, 0));
    assert!(two.has(5));
    // All files are missing: everything must be written again.
    (one.state().text, two.state().text) = (None, None);
    let report = opensm.observe().await.unwrap();
    assert!(report.stale && report.open == Some(true));
}
