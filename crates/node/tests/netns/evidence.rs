//! Tests that leaked address allocations are released. The journals and network namespaces are real. The API
//! server is a fake that can be made unavailable.

use super::simulated_host::create_pod_netns;
use ferroband_address::{
    AddressAllocation, BlockAddition, BlockCall, BlockWrite, CallOutcome, InMemoryBlocks, IpBlockId, IpSpace,
    whereabouts::WhereaboutsConfig,
};
use ferroband_attach::journal::Journal;
use ferroband_kernel::{Netns, Root};
use ferroband_model::PodRef;
use ferroband_node::{
    address::{AllocatorHandle, AssignmentGate, BlockStore, OwnBlocks, create_allocator},
    caches::{PodFacts, WatchCache},
    evidence::Evidence,
};
use ferroband_testbed::UnmanagedPartitions;
use kube::runtime::watcher::Event;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
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

/// A block store. While the `AtomicBool` is set, every request fails as if the API server were unavailable.
#[derive(Clone, Default)]
struct FakeBlockStore(Arc<(Mutex<InMemoryBlocks>, AtomicBool)>);

impl FakeBlockStore {
    fn add(&self, entries: BTreeMap<u8, AddressAllocation>) {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), FIRST.into());
        let addition = BlockAddition { id, holder: None, entries, exists: false };
        self.0.0.lock().unwrap().write(&BlockWrite::Add(addition)).unwrap();
    }

    fn assigned(&self) -> BTreeSet<u8> {
        self.0.0.lock().unwrap().blocks().flat_map(|block| block.entries.keys().copied()).collect()
    }
}

impl BlockStore for FakeBlockStore {
    async fn execute(&self, node: &str, call: &BlockCall) -> CallOutcome {
        match self.0.1.load(Ordering::Relaxed) {
            true => CallOutcome::Unavailable,
            false => self.0.0.lock().unwrap().execute(node, call),
        }
    }
}

/// A node whose allocations are in a fake block store and whose journals and namespaces are real files.
struct EvidenceFixture {
    root: Root,
    folder: TempDir,
    server: FakeBlockStore,
    blocks: Arc<OwnBlocks>,
    epoch: watch::Sender<String>,
    gate: AssignmentGate,
    allocator: AllocatorHandle,
    pods: Arc<WatchCache<PodFacts>>,
    asserted: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    evidence: Option<Evidence>,
    /// Open handles of the namespaces that `add_namespace` created.
    netns_handles: Vec<Netns>,
}

impl EvidenceFixture {
    /// `entries` are the allocations in the block, each as offset of the address, container ID and pod UID.
    fn new(entries: &[(u8, &str, &str)]) -> Self {
        // Mounts are made in a private mount namespace, which ends with this thread.
        unshare(CloneFlags::CLONE_NEWNS).expect("these tests need root");
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for path in ["proc/sys/kernel/random", "var/lib/ferroband/journal", "netns"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        std::fs::write(folder.path().join("proc/sys/kernel/random/boot_id"), "this-boot\n").unwrap();
        let mut allocations = BTreeMap::new();
        for (offset, container, uid) in entries {
            let entry = AddressAllocation {
                pod: format!("default/{uid}"),
                uid: uid.to_string(),
                interface: "net1".into(),
                container: container.to_string(),
                node: "n1".into(),
                ..AddressAllocation::default()
            };
            allocations.insert(*offset, entry);
        }
        let server = FakeBlockStore::default();
        server.add(allocations);
        let blocks = Arc::new(OwnBlocks::new("n1"));
        let gate = AssignmentGate::open();
        let (allocator, batch_writer) = create_allocator(blocks.clone(), gate.clone(), server.clone());
        tokio::spawn(batch_writer.run());
        let pods = Arc::new(WatchCache::default());
        let (asserted_sender, asserted) = watch::channel(None);
        let epoch = watch::Sender::new(String::new());
        let evidence = Evidence {
            root: root.clone(),
            netns_dirs: vec![folder.path().join("netns")],
            node: "n1".to_owned(),
            blocks: blocks.clone(),
            allocator: allocator.clone(),
            pods: pods.clone(),
            membership: Arc::new(UnmanagedPartitions),
            asserted: asserted_sender,
            epoch: epoch.subscribe(),
            gate: gate.clone(),
        };
        let stop = CancellationToken::new();
        Self {
            root,
            folder,
            server,
            blocks,
            epoch,
            gate,
            allocator,
            pods,
            asserted,
            stop,
            evidence: Some(evidence),
            netns_handles: Vec::new(),
        }
    }

    /// Creates a network namespace and mounts it in the runtime's directory. Returns its path and ID.
    fn add_namespace(&mut self, name: &str) -> (PathBuf, Value) {
        let (netns, path) = (create_pod_netns(), self.folder.path().join("netns").join(name));
        std::fs::write(&path, "").unwrap();
        // The thread that created the namespace has ended, so it is mounted through its file descriptor.
        let fd_path = format!("/proc/self/fd/{}", netns.fd().as_raw_fd());
        mount(Some(fd_path.as_str()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        let id = serde_json::to_value(netns.id()).unwrap();
        self.netns_handles.push(netns);
        (path, id)
    }

    /// Writes the journal of a sandbox whose network namespace is at `path`. The journal contains one
    /// attachment that uses Whereabouts, and no assigned address.
    fn add_journal(&self, container: &str, boot: &str, path: &str, id: &Value) -> Journal {
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

    fn add_pod(&self, uid: &str) {
        let facts = PodFacts { uid: uid.to_owned(), ..PodFacts::default() };
        self.pods.apply(Event::InitApply((("default".to_owned(), uid.to_owned()), Some(facts))));
    }

    /// Lets the daemon's check for leaked allocations run for this many seconds of the test's clock.
    async fn run_for(&mut self, seconds: u64) {
        if !self.pods.is_synced() {
            self.pods.apply(Event::InitDone);
        }
        if let Some(evidence) = self.evidence.take() {
            tokio::spawn(self.stop.clone().run_until_cancelled_owned(evidence.run()));
        }
        sleep(Duration::from_secs(seconds)).await;
    }
}

impl Drop for EvidenceFixture {
    fn drop(&mut self) {
        self.stop.cancel();
        // Unmount the namespaces, because a directory with mounts cannot be removed. Errors are ignored: some
        // tests have unmounted them already.
        for file in std::fs::read_dir(self.folder.path().join("netns")).into_iter().flatten().flatten() {
            let _ = umount2(&file.path(), MntFlags::MNT_DETACH);
        }
    }
}

fn offsets<const N: usize>(offsets: [u8; N]) -> BTreeSet<u8> {
    offsets.into()
}

// Case: ipam W33
#[tokio::test(start_paused = true)]
async fn only_allocations_of_provably_gone_sandboxes_are_released() {
    let mut node = EvidenceFixture::new(&[
        (1, "alive", "alive"),
        (2, "rebooted", "rebooted"),
        (3, "gone", "gone"),
        (4, "elsewhere", "elsewhere"),
        (5, "reused", "reused"),
        (6, "half", "half"),
        (7, "process", "process"),
    ]);
    let (alive, id) = node.add_namespace("alive");
    let (other, _) = node.add_namespace("other");
    let unknown_id = json!({"dev": 4, "inode": 1});
    node.add_journal("alive", "this-boot", alive.to_str().unwrap(), &id);
    node.add_journal("rebooted", "another-boot", alive.to_str().unwrap(), &id);
    let gone = node.folder.path().join("netns/gone");
    node.add_journal("gone", "this-boot", gone.to_str().unwrap(), &unknown_id);
    // The path is outside the runtime's directory. In the daemon's mount namespace, it may be a different
    // directory, so a missing file does not prove that the sandbox is gone. The allocation must be kept.
    node.add_journal("elsewhere", "this-boot", "/nowhere/gone", &unknown_id);
    node.add_journal("reused", "this-boot", other.to_str().unwrap(), &unknown_id);
    // The file exists but no namespace is mounted on it. The daemon sees this if mounts are not propagated to
    // it, so the allocation must be kept.
    let half = node.folder.path().join("netns/half");
    std::fs::write(&half, "").unwrap();
    node.add_journal("half", "this-boot", half.to_str().unwrap(), &unknown_id);
    // The PID in a /proc path is valid only in the runtime's PID namespace. In the daemon's, it is another
    // process or none, so the allocation must be kept.
    node.add_journal("process", "this-boot", "/proc/self/ns/net", &unknown_id);
    for uid in ["alive", "rebooted", "gone", "elsewhere", "reused", "half", "process"] {
        node.add_pod(uid);
    }
    node.run_for(8).await;
    assert_eq!(node.server.assigned(), offsets([1, 2, 3, 4, 5, 6, 7]), "one observation is not enough");
    node.run_for(30).await;
    assert_eq!(node.server.assigned(), offsets([1, 4, 6, 7]));
}

#[tokio::test(start_paused = true)]
async fn empty_netns_directory_counts_as_unmounted_unless_the_pod_is_gone() {
    let mut node = EvidenceFixture::new(&[(1, "kept", "kept"), (2, "deleted", "deleted")]);
    for container in ["kept", "deleted"] {
        let path = node.folder.path().join("netns").join(container);
        node.add_journal(container, "this-boot", path.to_str().unwrap(), &json!({"dev": 4, "inode": 1}));
    }
    node.add_pod("kept");
    node.run_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1]));
}

// Case: ipam A28
#[tokio::test(start_paused = true)]
async fn address_that_the_leader_imported_is_released_with_its_pod() {
    let mut node = EvidenceFixture::new(&[]);
    node.add_namespace("of another pod");
    node.add_pod("legacy");
    node.run_for(60).await;
    let entry = AddressAllocation {
        pod: "default/legacy".into(),
        uid: "legacy".into(),
        interface: "net1".into(),
        container: "before-legacy".into(),
        node: "n1".into(),
        ..AddressAllocation::default()
    };
    node.server.add([(1, entry)].into());
    node.gate.update(|inputs| {
        let mut state = inputs.state.as_deref().cloned().unwrap_or_default();
        state.status.get_or_insert_default().importing = true;
        inputs.state = Some(Arc::new(state));
    });
    node.run_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1]));
    let key = ("default".to_owned(), "legacy".to_owned());
    node.pods.apply(Event::Delete((key, None)));
    node.run_for(40).await;
    assert_eq!(node.server.assigned(), offsets([]));
}

// Case: ipam W32
#[tokio::test(start_paused = true)]
async fn allocation_without_a_journal_is_released_only_if_pod_and_namespaces_lack_it() {
    let mut node = EvidenceFixture::new(&[
        (1, "pod", "pod"),
        (2, "lingers", "lingers"),
        (3, "lost", "lost"),
        (4, "torn", "torn"),
    ]);
    node.add_pod("pod");
    // The pod `lingers` was force-deleted: its object is gone, but its processes run until the kubelet stops
    // them, so its address must be kept.
    let (path, _) = node.add_namespace("lingers");
    let inside = Netns::open(&path).unwrap();
    assert_ne!(
        inside.id(),
        Netns::current().unwrap().id(),
        "the commands below must not run in the host's namespace"
    );
    inside
        .run(|| {
            let added = std::process::Command::new("ip")
                .args(["address", "add", "10.9.0.2/24", "dev", "lo"])
                .status();
            assert!(added.unwrap().success());
        })
        .unwrap();
    std::fs::write(node.folder.path().join("var/lib/ferroband/journal/torn.json"), "{\"sche").unwrap();
    node.run_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1, 2, 4]));
    // Once the address is removed from the namespace, the allocation must be released.
    inside
        .run(|| {
            let gone = std::process::Command::new("ip").args(["address", "flush", "dev", "lo"]).status();
            assert!(gone.unwrap().success());
        })
        .unwrap();
    node.run_for(60).await;
    assert_eq!(node.server.assigned(), offsets([1, 4]));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_released_without_any_visible_namespace() {
    let mut node = EvidenceFixture::new(&[(1, "lost", "lost")]);
    node.run_for(60).await;
    assert_eq!(
        node.server.assigned(),
        offsets([1]),
        "without any visible namespace it cannot be proven unused"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_released_before_the_pods_are_listed() {
    let mut node = EvidenceFixture::new(&[(1, "lost", "lost")]);
    node.add_namespace("any");
    let evidence = node.evidence.take().unwrap();
    tokio::spawn(node.stop.clone().run_until_cancelled_owned(evidence.run()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(node.server.assigned(), offsets([1]), "the pods have not been listed yet");
    assert!(node.asserted.borrow().is_none());
    node.run_for(60).await;
    assert_eq!(node.server.assigned(), offsets([]));
}

#[tokio::test(start_paused = true)]
async fn allocations_of_running_pods_are_restored_before_new_ones_once_the_api_server_is_up() {
    let mut node = EvidenceFixture::new(&[]);
    let (path, id) = node.add_namespace("alive");
    let mut journal = node.add_journal("alive", "this-boot", path.to_str().unwrap(), &id);
    let assigned = json!([{"attachment": 0, "ips": [{"address": "10.9.0.3/24"}], "routes": []}]);
    journal.assigned = serde_json::from_value(assigned).unwrap();
    journal.save(&node.root).unwrap();
    node.add_pod("alive");
    node.server.0.1.store(true, Ordering::Relaxed);
    node.run_for(120).await;
    assert!(node.asserted.borrow().is_none(), "not restored, so nothing new may be assigned");
    node.server.0.1.store(false, Ordering::Relaxed);
    node.run_for(30).await;
    assert_eq!(node.asserted.borrow().as_deref(), Some(""));
    assert_eq!(node.server.assigned(), offsets([3]));
    let addresses: Vec<_> =
        node.blocks.own_allocations().into_iter().map(|(_, address, _)| address).collect();
    assert_eq!(addresses, [IpAddr::from([10, 9, 0, 3])]);
}

#[tokio::test(start_paused = true)]
async fn etcd_restore_restores_running_pods_at_once() {
    let mut node = EvidenceFixture::new(&[]);
    let (path, id) = node.add_namespace("alive");
    let mut journal = node.add_journal("alive", "this-boot", path.to_str().unwrap(), &id);
    journal.assigned =
        serde_json::from_value(json!([{"attachment": 0, "ips": [{"address": "10.9.0.3/24"}], "routes": []}]))
            .unwrap();
    journal.save(&node.root).unwrap();
    node.add_pod("alive");
    node.run_for(15).await;
    assert_eq!(node.server.assigned(), offsets([3]));
    // etcd is restored from a backup that does not contain the allocation.
    *node.server.0.0.lock().unwrap() = InMemoryBlocks::default();
    node.epoch.send_replace("e1".into());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(node.asserted.borrow().as_deref(), Some("e1"));
    assert_eq!(node.server.assigned(), offsets([3]), "at once, not after two observations");
    let ipam = json!({"type": "whereabouts", "range": "10.9.0.0/24"});
    let ipam = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
    let pod = PodRef { namespace: "default".into(), name: "new".into(), uid: "new".into() };
    let assigned_addresses =
        node.allocator.assign("a test".into(), ipam.requests(&pod, false, "net1", "new")).await.unwrap();
    assert_eq!(assigned_addresses[0].0.to_string(), "10.9.0.1/24");
}
