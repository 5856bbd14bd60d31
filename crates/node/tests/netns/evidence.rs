//! When addresses are taken back, and when not: journals and namespaces here, an API server that a test can take away.

use super::machine::pod;
use ferroband_address::{
    AddressAllocation, IpBlock, IpBlockId, IpSpace, ResourceVersion, whereabouts::WhereaboutsConfig,
};
use ferroband_attach::journal::Journal;
use ferroband_kernel::{Netns, Root};
use ferroband_model::PodRef;
use ferroband_node::{
    Error,
    address::{AddressBlockCache, AllocatorHandle, BlockStore, BlockStoreError, Evidence, create_allocator},
    caches::{PodFacts, WatchCache},
    serve::UnmanagedPartitions,
};
use kube::runtime::watcher::Event;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    net::IpAddr,
    os::fd::AsRawFd,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

const FIRST: [u8; 4] = [10, 9, 0, 0];

/// One granule in an API server that may be away.
#[derive(Clone)]
struct FakeBlockStore(Arc<(Mutex<StoredBlock>, AtomicBool)>);

/// The granule and its version.
type StoredBlock = Option<(IpBlock, u64)>;

impl FakeBlockStore {
    fn put(
        &self,
        granule: &IpBlock,
        expected: Option<&ResourceVersion>,
    ) -> Result<ResourceVersion, BlockStoreError> {
        let (kept, away) = &*self.0;
        if away.load(Ordering::Relaxed) {
            return Err(BlockStoreError::Unavailable(Error::Task {
                task: "the test's server",
                source: None,
            }));
        }
        let mut kept = kept.lock().unwrap();
        let now = kept.as_ref().map(|(_, version)| ResourceVersion(version.to_string()));
        if now.as_ref() != expected {
            return Err(BlockStoreError::Conflict);
        }
        let version = kept.as_ref().map_or(1, |(_, version)| version + 1);
        *kept = Some((granule.clone(), version));
        Ok(ResourceVersion(version.to_string()))
    }

    fn assigned(&self) -> BTreeSet<u8> {
        self.0.0.lock().unwrap().iter().flat_map(|(granule, _)| granule.entries.keys().copied()).collect()
    }
}

impl BlockStore for FakeBlockStore {
    async fn create(&self, granule: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        self.put(granule, None)
    }

    async fn replace(
        &self,
        granule: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        self.put(granule, Some(expected))
    }

    async fn get(&self, _: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
        if self.0.1.load(Ordering::Relaxed) {
            return Err(BlockStoreError::Unavailable(Error::Task {
                task: "the test's server",
                source: None,
            }));
        }
        let kept = self.0.0.lock().unwrap();
        Ok(kept.as_ref().map(|(granule, version)| (granule.clone(), ResourceVersion(version.to_string()))))
    }
}

/// A node whose API server has these entries: offset, container, pod's UID.
struct EvidenceFixture {
    root: Root,
    folder: TempDir,
    server: FakeBlockStore,
    ledger: Arc<AddressBlockCache>,
    desk: AllocatorHandle,
    pods: Arc<WatchCache<PodFacts>>,
    asserted: watch::Receiver<bool>,
    stop: CancellationToken,
    evidence: Option<Evidence>,
    /// What keeps namespaces whose files are there.
    kept: Vec<Netns>,
}

impl EvidenceFixture {
    fn new(entries: &[(u8, &str, &str)]) -> Self {
        // Mounts of this thread's own, which go with it.
        unshare(CloneFlags::CLONE_NEWNS).expect("these tests need root");
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for path in ["proc/sys/kernel/random", "var/lib/ferroband/journal", "netns"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        std::fs::write(folder.path().join("proc/sys/kernel/random/boot_id"), "this-boot\n").unwrap();
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), FIRST.into());
        let mut granule = IpBlock::new(id, None);
        for (offset, container, uid) in entries {
            let entry = json!({
                "pod": format!("default/{uid}"), "uid": uid, "interface": "net1", "container": container, "node": "n1",
            });
            granule.entries.insert(*offset, serde_json::from_value::<AddressAllocation>(entry).unwrap());
        }
        let server =
            FakeBlockStore(Arc::new((Mutex::new(Some((granule.clone(), 1))), AtomicBool::new(false))));
        let ledger = Arc::new(AddressBlockCache::for_node("n1"));
        ledger.begin_list();
        ledger.add_listed(granule, ResourceVersion("1".into()));
        ledger.finish_list();
        let (desk, committer) = create_allocator("n1".to_owned(), ledger.clone(), server.clone());
        tokio::spawn(committer.run());
        let pods = Arc::new(WatchCache::default());
        let (told, asserted) = watch::channel(false);
        let evidence = Evidence {
            root: root.clone(),
            netns_dirs: vec![folder.path().join("netns")],
            node: "n1".to_owned(),
            blocks: ledger.clone(),
            allocator: desk.clone(),
            pods: pods.clone(),
            membership: Arc::new(UnmanagedPartitions),
            allocations_restored: told,
        };
        let stop = CancellationToken::new();
        Self {
            root,
            folder,
            server,
            ledger,
            desk,
            pods,
            asserted,
            stop,
            evidence: Some(evidence),
            kept: Vec::new(),
        }
    }

    /// A namespace where the runtime keeps them.
    fn namespace(&mut self, name: &str) -> (PathBuf, Value) {
        let (netns, path) = (pod(), self.folder.path().join("netns").join(name));
        std::fs::write(&path, "").unwrap();
        // The thread that it was made on has ended; the descriptor leads to it.
        let held = format!("/proc/self/fd/{}", netns.fd().as_raw_fd());
        mount(Some(held.as_str()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        let id = serde_json::to_value(netns.id()).unwrap();
        self.kept.push(netns);
        (path, id)
    }

    /// A journal of a sandbox at `path`, with an address.
    fn journal(&self, container: &str, boot: &str, path: &str, id: &Value) -> Journal {
        let config = json!({
            "type": "ipoib", "master": "ib0", "name": "a", "ipam": {"type": "whereabouts", "range": "10.9.0.0/24"},
        });
        let attachment = json!({
            "ifname": "net1", "network": "default/a", "name": "a", "cni_version": "1.0.0", "default": false,
            "steps": [{"by": {"kind": "foreign"}, "config": config}],
        });
        let journal = json!({
            "schema": 1, "role": "ferroband", "boot": boot, "container": container, "ifname": "eth0", "network": "k8s",
            "netns": path, "netns_id": id, "args": "", "daemon": true, "attached": true,
            "pod": {"namespace": "default", "name": container, "uid": container},
            "entries": [{"attachment": attachment, "steps": [{}]}],
            "assigned": [],
        });
        let journal: Journal = serde_json::from_value(journal).unwrap();
        journal.save(&self.root).unwrap();
        journal
    }

    fn pod(&self, uid: &str) {
        let facts = PodFacts { uid: uid.to_owned(), ..PodFacts::default() };
        self.pods.apply(Event::InitApply((("default".to_owned(), uid.to_owned()), Some(facts))));
    }

    /// Look for so many seconds of the test's clock.
    async fn look_for(&mut self, seconds: u64) {
        if !self.pods.is_synced() {
            self.pods.apply(Event::InitDone);
        }
        if let Some(evidence) = self.evidence.take() {
            tokio::spawn(evidence.run(self.stop.clone()));
        }
        sleep(Duration::from_secs(seconds)).await;
    }
}

impl Drop for EvidenceFixture {
    fn drop(&mut self) {
        self.stop.cancel();
        // A folder with a mount in it would stay. Some tests have taken theirs away already.
        for file in std::fs::read_dir(self.folder.path().join("netns")).into_iter().flatten().flatten() {
            let _ = umount2(&file.path(), MntFlags::MNT_DETACH);
        }
    }
}

fn offsets<const N: usize>(offsets: [u8; N]) -> BTreeSet<u8> {
    offsets.into()
}

#[tokio::test(start_paused = true)]
async fn w33_what_is_certainly_gone_is_released_and_what_may_live_is_not() {
    let mut node = EvidenceFixture::new(&[
        (1, "alive", "alive"),
        (2, "rebooted", "rebooted"),
        (3, "gone", "gone"),
        (4, "elsewhere", "elsewhere"),
        (5, "reused", "reused"),
        (6, "half", "half"),
        (7, "process", "process"),
    ]);
    let (alive, id) = node.namespace("alive");
    let (other, _) = node.namespace("other");
    let nobody = json!({"dev": 4, "inode": 1});
    node.journal("alive", "this-boot", alive.to_str().unwrap(), &id);
    node.journal("rebooted", "another-boot", alive.to_str().unwrap(), &id);
    let gone = node.folder.path().join("netns/gone");
    node.journal("gone", "this-boot", gone.to_str().unwrap(), &nobody);
    // Not where runtimes keep them: this process may see another folder of that name.
    node.journal("elsewhere", "this-boot", "/nowhere/gone", &nobody);
    node.journal("reused", "this-boot", other.to_str().unwrap(), &nobody);
    // A file without its mount, as where propagation is missing.
    let half = node.folder.path().join("netns/half");
    std::fs::write(&half, "").unwrap();
    node.journal("half", "this-boot", half.to_str().unwrap(), &nobody);
    // A PID of the runtime's namespace is somebody else's, or nobody's, in ours.
    node.journal("process", "this-boot", "/proc/self/ns/net", &nobody);
    for uid in ["alive", "rebooted", "gone", "elsewhere", "reused", "half", "process"] {
        node.pod(uid);
    }
    node.look_for(8).await;
    assert_eq!(node.server.assigned(), offsets([1, 2, 3, 4, 5, 6, 7]), "one look is not enough");
    node.look_for(30).await;
    assert_eq!(node.server.assigned(), offsets([1, 4, 6, 7]));
}

#[tokio::test(start_paused = true)]
async fn an_empty_folder_is_a_missing_mount_unless_the_pod_is_gone_too() {
    let mut node = EvidenceFixture::new(&[(1, "kept", "kept"), (2, "deleted", "deleted")]);
    for container in ["kept", "deleted"] {
        let path = node.folder.path().join("netns").join(container);
        node.journal(container, "this-boot", path.to_str().unwrap(), &json!({"dev": 4, "inode": 1}));
    }
    node.pod("kept");
    node.look_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1]));
}

#[tokio::test(start_paused = true)]
async fn w32_without_a_journal_the_pod_and_all_namespaces_must_not_have_it() {
    let mut node = EvidenceFixture::new(&[
        (1, "pod", "pod"),
        (2, "lingers", "lingers"),
        (3, "lost", "lost"),
        (4, "torn", "torn"),
    ]);
    node.pod("pod");
    // Force-deleted a moment ago; its processes end when the kubelet comes to it.
    let (path, _) = node.namespace("lingers");
    let inside = Netns::open(&path).unwrap();
    assert_ne!(inside.id(), Netns::current().unwrap().id(), "what follows must not meet the machine's own");
    inside
        .run(|| {
            let added = std::process::Command::new("ip")
                .args(["address", "add", "10.9.0.2/24", "dev", "lo"])
                .status();
            assert!(added.unwrap().success());
        })
        .unwrap();
    std::fs::write(node.folder.path().join("var/lib/ferroband/journal/torn.json"), "{\"sche").unwrap();
    node.look_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1, 2, 4]));
    // Its namespace goes, and then the address does.
    inside
        .run(|| {
            let gone = std::process::Command::new("ip").args(["address", "flush", "dev", "lo"]).status();
            assert!(gone.unwrap().success());
        })
        .unwrap();
    node.look_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1, 4]));
}

#[tokio::test(start_paused = true)]
async fn without_any_namespace_in_sight_nothing_is_lost_on_the_way() {
    let mut node = EvidenceFixture::new(&[(1, "lost", "lost")]);
    node.look_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1]), "nobody can say that no pod has it");
}

#[tokio::test(start_paused = true)]
async fn before_the_api_server_has_told_all_nothing_is_judged() {
    let mut node = EvidenceFixture::new(&[(1, "lost", "lost")]);
    node.namespace("any");
    let evidence = node.evidence.take().unwrap();
    tokio::spawn(evidence.run(node.stop.clone()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(node.server.assigned(), offsets([1]), "its pods have not been listed");
    assert!(!*node.asserted.borrow());
    node.look_for(60).await;
    assert_eq!(node.server.assigned(), offsets([]));
}

#[tokio::test(start_paused = true)]
async fn what_lives_is_asserted_before_anything_new_even_if_the_api_server_is_away_at_first() {
    let mut node = EvidenceFixture::new(&[]);
    let (path, id) = node.namespace("alive");
    let mut journal = node.journal("alive", "this-boot", path.to_str().unwrap(), &id);
    let assigned = json!([{"attachment": 0, "ips": [{"address": "10.9.0.3/24"}], "routes": []}]);
    journal.assigned = serde_json::from_value(assigned).unwrap();
    journal.save(&node.root).unwrap();
    node.pod("alive");
    node.server.0.1.store(true, Ordering::Relaxed);
    node.look_for(120).await;
    assert!(!*node.asserted.borrow(), "it is not, and nothing new may be given out");
    node.server.0.1.store(false, Ordering::Relaxed);
    node.look_for(30).await;
    assert!(*node.asserted.borrow());
    assert_eq!(node.server.assigned(), offsets([3]));
    let known: Vec<IpAddr> = node.ledger.with_view(|view| {
        view.iter()
            .flat_map(|(g, _)| g.entries.keys().map(|offset| g.address(*offset)).collect::<Vec<_>>())
            .collect()
    });
    assert_eq!(known, [IpAddr::from([10, 9, 0, 3])]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_what_lives_comes_first_and_what_others_had_is_left_alone() {
    let mut node = EvidenceFixture::new(&[]);
    let (path, id) = node.namespace("alive");
    let mut journal = node.journal("alive", "this-boot", path.to_str().unwrap(), &id);
    journal.assigned =
        serde_json::from_value(json!([{"attachment": 0, "ips": [{"address": "10.9.0.3/24"}], "routes": []}]))
            .unwrap();
    journal.save(&node.root).unwrap();
    node.pod("alive");
    node.look_for(15).await;
    assert_eq!(node.server.assigned(), offsets([3]));
    // Another node's pod got the first address, as the watch tells.
    let (mut granule, _) = node.server.0.0.lock().unwrap().clone().unwrap();
    let entry =
        json!({"pod": "default/far", "uid": "far", "interface": "net1", "container": "far", "node": "n2"});
    granule.entries.insert(1, serde_json::from_value(entry).unwrap());
    node.ledger.apply_watched(granule.clone(), ResourceVersion("7".into()));

    // The backup is older than both.
    granule.entries.clear();
    *node.server.0.0.lock().unwrap() = Some((granule.clone(), 1));
    node.ledger.begin_list();
    node.ledger.add_listed(granule, ResourceVersion("1".into()));
    node.ledger.finish_list();
    sleep(Duration::from_secs(2)).await;
    assert!(*node.asserted.borrow());
    assert_eq!(node.server.assigned(), offsets([3]), "at once, not after two looks");
    let ipam = json!({"type": "whereabouts", "range": "10.9.0.0/24"});
    let ipam = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
    let pod = PodRef { namespace: "default".into(), name: "new".into(), uid: "new".into() };
    let given = node.desk.assign("a test".into(), ipam.requests(&pod, false, "net1", "new")).await.unwrap();
    assert_eq!(
        given[0].0.to_string(),
        "10.9.0.2/24",
        "the first is somebody's, whatever the API server says"
    );
}
