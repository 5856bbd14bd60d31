use super::{AddressBlockCache, AllocatorHandle, BlockStore, BlockStoreError, create_allocator};
use crate::Error;
use ferroband_address::{
    AddressRelease, AddressRequest, IpBlock, IpBlockId, ResourceVersion, whereabouts::WhereaboutsConfig,
};
use ferroband_model::{FaultCode, PodRef};
use futures::future::join_all;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// An API server's granules: compare-and-swap over a version that counts all writes, and a delay for each call.
#[derive(Default)]
struct FlakyBlockStore {
    blocks: Mutex<BTreeMap<String, (IpBlock, ResourceVersion)>>,
    writes: Mutex<Vec<String>>,
    reads: Mutex<usize>,
    /// What the next calls meet.
    failures: Mutex<Vec<InjectedFailure>>,
    delay: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum InjectedFailure {
    /// No answer, and nothing written.
    Unavailable,
    /// Written, but the answer is lost.
    ResponseLost,
    Rejected,
}

impl FlakyBlockStore {
    fn slow() -> Arc<Self> {
        Arc::new(Self { delay: Duration::from_millis(20), ..Self::default() })
    }

    fn inject(&self, weather: &[InjectedFailure]) {
        *self.failures.lock().unwrap() = weather.iter().rev().copied().collect();
    }

    fn put(&self, granule: &IpBlock) -> ResourceVersion {
        let mut writes = self.writes.lock().unwrap();
        writes.push(granule.object_name());
        let version = ResourceVersion(writes.len().to_string());
        self.blocks.lock().unwrap().insert(granule.object_name(), (granule.clone(), version.clone()));
        version
    }

    fn try_put(
        &self,
        granule: &IpBlock,
        expected: Option<&ResourceVersion>,
    ) -> Result<ResourceVersion, BlockStoreError> {
        let weather = self.failures.lock().unwrap().pop();
        let problem = || Error::Task { task: "the test's server", source: None };
        match weather {
            Some(InjectedFailure::Unavailable) => return Err(BlockStoreError::Unavailable(problem())),
            Some(InjectedFailure::Rejected) => return Err(BlockStoreError::Rejected(problem())),
            _ => {}
        }
        let now = self.blocks.lock().unwrap().get(&granule.object_name()).map(|(_, version)| version.clone());
        if now.as_ref() != expected {
            return Err(BlockStoreError::Conflict);
        }
        let version = self.put(granule);
        match weather {
            Some(_) => Err(BlockStoreError::Unavailable(problem())),
            None => Ok(version),
        }
    }

    fn assigned(&self) -> BTreeMap<IpAddr, String> {
        let granules = self.blocks.lock().unwrap();
        let entries = granules.values().flat_map(|(granule, _)| {
            granule.entries.iter().map(|(offset, entry)| (granule.address(*offset), entry.container.clone()))
        });
        entries.collect()
    }
}

impl BlockStore for Arc<FlakyBlockStore> {
    async fn create(&self, granule: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        sleep(self.delay).await;
        self.try_put(granule, None)
    }

    async fn replace(
        &self,
        granule: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        sleep(self.delay).await;
        self.try_put(granule, Some(expected))
    }

    async fn get(&self, id: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
        sleep(self.delay).await;
        *self.reads.lock().unwrap() += 1;
        if self.failures.lock().unwrap().pop() == Some(InjectedFailure::Unavailable) {
            return Err(BlockStoreError::Unavailable(Error::Task {
                task: "the test's server",
                source: None,
            }));
        }
        Ok(self.blocks.lock().unwrap().get(&id.object_name()).cloned())
    }
}

/// A node with its committer. Its watch is as slow as one likes: it shows nothing at all.
fn node(name: &str, server: &Arc<FlakyBlockStore>) -> AllocatorHandle {
    let ledger = Arc::new(AddressBlockCache::default());
    ledger.begin_list();
    for (granule, version) in server.blocks.lock().unwrap().values() {
        ledger.add_listed(granule.clone(), version.clone());
    }
    ledger.finish_list();
    let (desk, committer) = create_allocator(name.to_owned(), ledger, server.clone());
    tokio::spawn(committer.run());
    desk
}

fn requests(pod: usize, range: &str) -> Vec<AddressRequest> {
    let ipam = json!({"type": "whereabouts", "range": range});
    let ipam = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
    let pod_ref = PodRef { namespace: "default".into(), name: format!("p{pod}"), uid: format!("u{pod}") };
    ipam.requests(&pod_ref, false, "net1", &format!("c{pod}"))
}

async fn assign(desk: &AllocatorHandle, pod: usize) -> IpAddr {
    desk.assign("network default/ib".into(), requests(pod, "192.168.0.0/24")).await.unwrap()[0].0.addr()
}

fn release(pod: usize) -> AddressRelease {
    AddressRelease { container: format!("c{pod}"), interface: None }
}

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn concurrent_orders_share_writes_and_never_an_address() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    let addresses = join_all((0..64).map(|pod| assign(&desk, pod))).await;
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 64);
    assert_eq!(server.assigned().len(), 64);
    // The first order may go alone; the others fill four or five granules in one round.
    let writes = server.writes.lock().unwrap().len();
    assert!(writes <= 7, "{writes} writes for 64 addresses");
    assert_eq!(*server.reads.lock().unwrap(), 0);
}

#[tokio::test]
async fn one_order_is_one_write_and_no_read() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    let first = assign(&desk, 1).await;
    assert_eq!(*server.writes.lock().unwrap(), ["default-192.168.0.0"]);
    assert_eq!(assign(&desk, 1).await, first, "the same pod asks again");
    assert_eq!(server.writes.lock().unwrap().len(), 1, "it stands there already");
    assert!(desk.release(release(1), SOON).await);
    assert!(server.assigned().is_empty());
    assert_eq!((server.writes.lock().unwrap().len(), *server.reads.lock().unwrap()), (2, 0));
}

#[tokio::test]
async fn nodes_that_race_for_the_same_granules_never_share_an_address() {
    let server = FlakyBlockStore::slow();
    // Neither node sees the other's writes by its watch.
    let (one, two) = (node("n1", &server), node("n2", &server));
    let ours = join_all((0..20).map(|pod| assign(&one, pod)));
    let theirs = join_all((100..120).map(|pod| assign(&two, pod)));
    let (ours, theirs) = tokio::join!(ours, theirs);
    let all: BTreeSet<_> = ours.iter().chain(&theirs).collect();
    assert_eq!(all.len(), 40, "no address twice");
    assert_eq!(server.assigned().len(), 40);
    assert!(*server.reads.lock().unwrap() > 0, "somebody lost and looked again");
}

#[tokio::test]
async fn a_release_and_an_assignment_of_one_granule_are_one_write() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    let first = assign(&desk, 1).await;
    // Both are ordered before the committer looks.
    let (second, released) = tokio::join!(assign(&desk, 2), desk.release(release(1), SOON));
    assert!(released);
    assert_eq!(second, first, "what is freed can be assigned in the same write");
    assert_eq!(server.writes.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn another_sandbox_of_the_pod_frees_nothing() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    assign(&desk, 1).await;
    assert!(desk.release(release(7), SOON).await, "nothing to free is done");
    assert!(
        desk.release(AddressRelease { container: "c1".into(), interface: Some("net2".into()) }, SOON).await
    );
    assert_eq!(server.assigned().len(), 1);
}

#[tokio::test]
async fn an_api_server_that_comes_back_serves_what_waits() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    server.inject(&[
        InjectedFailure::Unavailable,
        InjectedFailure::Unavailable,
        InjectedFailure::Unavailable,
    ]);
    assign(&desk, 1).await;
    server.inject(&[InjectedFailure::Unavailable, InjectedFailure::Unavailable]);
    assert!(desk.release(release(1), SOON).await);
    assert!(server.assigned().is_empty());
}

#[tokio::test]
async fn an_api_server_that_stays_away_is_a_fault_to_try_again() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server).with_assign_timeout(Duration::from_millis(200));
    server.inject(&[InjectedFailure::Unavailable; 50]);
    let fault = desk.assign("network default/ib".into(), requests(1, "10.0.0.0/24")).await.unwrap_err();
    assert_eq!((fault.code, fault.code.cni_code()), (FaultCode::ApiUnavailable, 11));
    assert!(fault.what.contains("default/ib"), "{fault}");
    assert!(!desk.release(release(1), Duration::from_millis(100)).await);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_found_by_the_release() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server).with_assign_timeout(Duration::from_millis(60));
    // The address is assigned, but nobody knows; then the ADD gives up.
    let mut weather = vec![InjectedFailure::ResponseLost];
    weather.extend([InjectedFailure::Unavailable; 3]);
    server.inject(&weather);
    let gave_up = desk.assign("network default/ib".into(), requests(1, "10.0.0.0/24")).await;
    gave_up.unwrap_err();
    assert_eq!(server.assigned().len(), 1);
    assert!(desk.release(release(1), SOON).await);
    assert!(server.assigned().is_empty(), "{:?}", server.assigned());
}

#[tokio::test]
async fn a_refusal_and_an_empty_pool_are_told_at_once() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    server.inject(&[InjectedFailure::Rejected]);
    let refused =
        timeout(Duration::from_secs(2), desk.assign("network a/b".into(), requests(1, "10.0.0.0/24")));
    refused.await.expect("at once").unwrap_err();

    // A /30 has two usable addresses.
    for pod in [1, 2] {
        desk.assign("network a/b".into(), requests(pod, "10.9.0.0/30")).await.unwrap();
    }
    let fault = desk.assign("network a/b".into(), requests(3, "10.9.0.0/30")).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::PoolExhausted);
    assert!(fault.cause.contains("default/p1"), "who has them is told: {fault}");
}

#[tokio::test]
async fn a_release_takes_back_what_its_sandbox_still_waits_for() {
    let server = FlakyBlockStore::slow();
    let desk = node("n1", &server);
    let busy = assign(&desk, 1);
    let given_up = desk.assign("network a/b".into(), requests(2, "192.168.0.0/24"));
    let (_, assigned, released) = tokio::join!(busy, given_up, desk.release(release(2), SOON));
    assert!(released);
    assigned.unwrap_err();
    assert_eq!(server.assigned().into_values().collect::<Vec<_>>(), ["c1"]);
}

#[test]
fn a_list_older_than_our_own_write_does_not_hide_it() {
    let ledger = AddressBlockCache::default();
    let granule = |entries: bool| {
        let (id, _) =
            IpBlockId::containing(&ferroband_address::IpSpace::default_space(), "10.0.0.1".parse().unwrap());
        let mut granule = IpBlock::new(id, None);
        if entries {
            let entry =
                json!({"pod": "a/b", "uid": "u", "interface": "net1", "container": "c1", "node": "n1"});
            granule.entries.insert(1, serde_json::from_value(entry).unwrap());
        }
        granule
    };
    let used =
        |ledger: &AddressBlockCache| ledger.with_view(|view| view.iter().map(|(g, _)| g.used()).sum::<u8>());
    ledger.record_write(granule(true), ResourceVersion("9".into()));
    ledger.begin_list();
    ledger.add_listed(granule(false), ResourceVersion("5".into()));
    ledger.finish_list();
    assert_eq!(used(&ledger), 1);
    // Once the watch has shown it, a later list without the object counts.
    ledger.apply_watched(granule(true), ResourceVersion("9".into()));
    ledger.begin_list();
    ledger.finish_list();
    assert_eq!(used(&ledger), 0);
}
