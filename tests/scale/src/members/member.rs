//! One member: the parts of a node daemon that talk to the API server, without hardware and without a CNI socket.

use super::request_counter::RequestCounter;
use anyhow::{Context, Result, anyhow};
use ferroband_address::{AddressPool, AddressRelease, AddressRequest};
use ferroband_daemon::{AddressStateView, RevisionWatch, api_client, watch_address_state};
use ferroband_kernel::{Hardware, Root};
use ferroband_model::PodRef;
use ferroband_node::address::{AllocatorHandle, ApiBlockStore, AssignmentGate, OwnBlocks, create_allocator};
use ferroband_node::caches::{CoordinatorDefaults, NetworkDefinitionCache, NodePodCache, SpiderpoolCache};
use ferroband_node::etcd_restore::{RestoreCoordinator, keep_revision_file, load_revision_history};
use ferroband_node::partition::{GuidClaimClient, NodePartitionsSync, RequestedGuids};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a member waits for its caches.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a release may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// A member and its tasks, which end when it is dropped.
pub struct Member {
    pub node: String,
    pub counter: RequestCounter,
    allocator: AllocatorHandle,
    spiderpool: SpiderpoolCache,
    pods: NodePodCache,
    networks: NetworkDefinitionCache,
    partitions: Arc<NodePartitionsSync>,
    blocks: Arc<OwnBlocks>,
    gate: AssignmentGate,
    _tasks: JoinSet<()>,
}

impl Member {
    /// Starts what `ferroband node` starts for addresses, partitions and caches.
    pub async fn start(node: String, folder: &Path) -> Result<Self> {
        let counter = RequestCounter::default();
        let client =
            counter.count_requests_of(api_client().await.context("cannot connect to the API server")?);
        let root = Root::at(folder.join(&node));
        std::fs::create_dir_all(root.base()).with_context(|| format!("cannot create the root of {node}"))?;
        let hardware: Arc<dyn Hardware> = ferroband_sim::hardware(&root)?.into();
        let mut tasks = JoinSet::new();

        let pods = NodePodCache::new(client.clone());
        let networks = NetworkDefinitionCache::new(client.clone());
        let spiderpool = SpiderpoolCache::new(client.clone(), node.clone());
        let coordinator = CoordinatorDefaults::default();
        tasks.spawn(pods.clone().watch(node.clone()));
        tasks.spawn(networks.clone().watch());
        tasks.spawn(spiderpool.clone().watch_pools());
        tasks.spawn(spiderpool.clone().watch_reserved());
        tasks.spawn(spiderpool.clone().watch_namespaces());
        tasks.spawn(spiderpool.clone().watch_node());
        tasks.spawn(coordinator.clone().watch_coordinator(client.clone()));
        tasks.spawn(coordinator.clone().watch_service_cidrs(client.clone()));
        tasks.spawn(coordinator.read_pod_cidrs(client.clone(), node.clone()));

        let revisions = Arc::new(RevisionWatch::new(load_revision_history(&root)));
        let (gate, blocks) = (AssignmentGate::default(), Arc::new(OwnBlocks::new(&node)));
        let store = ApiBlockStore::new(client.clone(), revisions.clone());
        let (allocator, writer) = create_allocator(blocks.clone(), gate.clone(), store);
        let node_count = writer.node_count();
        tasks.spawn(writer.run());

        let claims = GuidClaimClient::new(client.clone(), node.clone());
        tasks.spawn(Arc::new(RequestedGuids::new(claims, hardware.clone())).run_release_loop());
        let partitions = Arc::new(NodePartitionsSync::new(client.clone(), node.clone()));
        let (epoch_sender, mut epoch) = watch::channel(String::new());
        let (asserted_sender, asserted) = watch::channel(Some(String::new()));
        let (state_sender, state) = watch::channel(AddressStateView::default());
        let coordinator = RestoreCoordinator::new(
            (revisions.clone(), state),
            gate.clone(),
            partitions.clone(),
            (epoch_sender, asserted),
            node_count,
        );
        tasks.spawn(coordinator.run());
        tasks.spawn(watch_address_state(client, revisions.clone(), state_sender));
        tasks.spawn(keep_revision_file(root.clone(), revisions));
        // Instead of the evidence scan: a member has no running pods whose entries must be written again.
        tasks.spawn(async move {
            while epoch.changed().await.is_ok() {
                asserted_sender.send_replace(Some(epoch.borrow().clone()));
            }
        });
        tasks.spawn(partitions.clone().run_watches());
        tasks.spawn(partitions.clone().run_writer(hardware, root));
        Ok(Self {
            node,
            counter,
            allocator,
            spiderpool,
            pods,
            networks,
            partitions,
            blocks,
            gate,
            _tasks: tasks,
        })
    }

    /// Waits until every cache has listed its objects, and addresses may be assigned.
    pub async fn wait_synced(&self) -> Result<()> {
        let synced = async {
            self.blocks.wait_synced().await;
            self.pods.cache().wait_synced().await;
            self.networks.cache().wait_synced().await;
            self.partitions.own_object.wait_synced().await;
            self.partitions.partitions.wait_synced().await;
            let mut gate = self.gate.changes();
            while self.gate.closed().is_some() && gate.changed().await.is_ok() {}
            while self.spiderpool.selection_input("default", Vec::new()).await.is_err() {}
        };
        timeout(SYNC_TIMEOUT, synced).await.with_context(|| {
            format!(
                "the caches of {} are not synced, or it may not assign: {:?}",
                self.node,
                self.gate.closed()
            )
        })
    }

    /// Assigns one address to a pod.
    pub async fn assign(&self, pod: &ScalePod) -> Result<IpAddr> {
        let request = AddressRequest {
            pools: vec![self.pool(&pod.pool).await?],
            pod: PodRef { namespace: "default".into(), name: pod.name.clone(), uid: pod.name.clone() },
            sticky: pod.sticky,
            interface: "net1".into(),
            ordinal: 0,
            container: pod.container.clone(),
        };
        let assigned = self.allocator.assign(format!("pod {}", pod.name), vec![request]).await?;
        Ok(assigned.first().context("no address was assigned")?.0.addr())
    }

    pub async fn release(&self, pod: &ScalePod) -> Result<()> {
        let release = AddressRelease { container: pod.container.clone(), ..AddressRelease::default() };
        match self.allocator.release(release, RELEASE_TIMEOUT).await {
            true => Ok(()),
            false => Err(anyhow!("the address of pod {} was not released in time", pod.name)),
        }
    }

    /// Returns the pool as this member knows it.
    async fn pool(&self, name: &str) -> Result<Arc<AddressPool>> {
        let input = self.spiderpool.selection_input("default", Vec::new()).await?;
        let none = BTreeMap::new();
        let pools = input.for_pod(&none, &none).pools;
        let pool = pools.get(name).with_context(|| format!("{} does not know pool {name}", self.node))?;
        Ok(pool.as_ref().map_err(|e| anyhow!("pool {name} is invalid: {e}"))?.addresses.clone())
    }
}

/// A pod of the benchmark, without an API object.
#[derive(Clone, Debug)]
pub struct ScalePod {
    pub name: String,
    pub container: String,
    /// SpiderIPPool that its address comes from.
    pub pool: String,
    /// Whether the pod belongs to a StatefulSet.
    pub sticky: bool,
}
