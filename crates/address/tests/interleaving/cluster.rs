//! A cluster of nodes that assign and release addresses, lose replies, crash and are fenced.

use ferroband_address::{
    AddressPool, AddressRelease, AddressRequest, AllocationReply, BlockCall, BlockWrite, CallOutcome,
    InMemoryBlocks, IpBlockId, IpSpace, NodeAllocator, SandboxRequest,
};
use ferroband_model::{Fault, FaultCode, PodRef};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What happens to the calls of a round.
#[derive(Clone, Copy, Debug)]
pub enum Delivery {
    Executed,
    /// Executed, but the reply is lost.
    ReplyLost,
    /// Never executed.
    Dropped,
    /// Executed long after the node has given up waiting.
    Delayed,
}

#[derive(Clone, Debug)]
pub enum InterleavingStep {
    /// Create sandboxes for these pods.
    Add(Vec<usize>),
    /// Delete the sandbox of a pod.
    Delete(usize),
    /// Let the node plan its next calls.
    Plan(usize),
    /// Execute the planned calls of the node, with one delivery per call.
    Deliver(usize, Vec<Delivery>),
    /// Execute one delayed call.
    DeliverLate,
    /// Kill the node's daemon and start it again. Its pods continue.
    Crash(usize),
    /// The node is lost: its pods are gone, and the leader deletes their entries.
    Fence(usize),
    /// The leader deletes empty blocks.
    DeleteEmpty,
    /// The leader writes the index.
    PublishIndex,
    /// The node looks for entries of sandboxes that do not exist, and releases them.
    Evidence(usize),
    Wait(Duration),
}

/// A request that a node has not answered.
#[derive(Clone, Debug)]
enum Ticket {
    Add { pod: usize, container: String },
    Release,
}

#[derive(Default, Clone, Debug)]
struct Pod {
    /// Number of sandboxes so far.
    sandboxes: usize,
    /// Number of times that the pod was re-created with another UID.
    incarnation: usize,
    node: usize,
    sandbox: Sandbox,
}

#[derive(Default, Clone, Debug, PartialEq)]
enum Sandbox {
    #[default]
    None,
    Starting(String),
    Running(String, Vec<IpAddr>),
}

impl Sandbox {
    fn container(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Starting(container) | Self::Running(container, _) => Some(container),
        }
    }
}

struct Node {
    allocator: NodeAllocator<Ticket>,
    calls: Vec<BlockCall>,
}

pub struct InterleavingCluster {
    server: InMemoryBlocks,
    nodes: Vec<Node>,
    pools: Vec<Arc<AddressPool>>,
    /// Assignable ranges, as (space, first address, last address), written down independently of the pools.
    offered: Vec<(IpSpace, IpAddr, IpAddr)>,
    pods: BTreeMap<usize, Pod>,
    delayed: Vec<(usize, BlockCall)>,
    now: Duration,
    /// Refusals because no address was free.
    pub exhausted: usize,
}

/// These pods belong to StatefulSets.
pub const STICKY_PODS: std::ops::Range<usize> = 500..504;

impl InterleavingCluster {
    pub fn new(nodes: usize, pools: Vec<Arc<AddressPool>>, offered: Vec<(IpSpace, IpAddr, IpAddr)>) -> Self {
        let nodes =
            (0..nodes).map(|node| Node { allocator: start(node, nodes), calls: Vec::new() }).collect();
        let (server, pods, delayed, now) = Default::default();
        Self { server, nodes, pools, offered, pods, delayed, now, exhausted: 0 }
    }

    pub fn apply(&mut self, step: InterleavingStep) {
        let count = self.nodes.len();
        match step {
            InterleavingStep::Add(pods) => pods.into_iter().for_each(|pod| self.add(pod)),
            InterleavingStep::Delete(pod) => self.delete(pod),
            InterleavingStep::Plan(node) => self.plan(node % count),
            InterleavingStep::Deliver(node, deliveries) => self.deliver(node % count, &deliveries),
            InterleavingStep::DeliverLate => self.deliver_late(),
            InterleavingStep::Crash(node) => self.crash(node % count),
            InterleavingStep::Fence(node) => self.fence(node % count),
            InterleavingStep::DeleteEmpty => self.delete_empty(),
            InterleavingStep::PublishIndex => self.publish_index(),
            InterleavingStep::Evidence(node) => self.release_orphans(node % count),
            InterleavingStep::Wait(time) => self.now += time,
        }
    }

    /// Creates a sandbox, unless the pod has one.
    pub fn add(&mut self, number: usize) {
        let count = self.nodes.len();
        let pod = self.pods.entry(number).or_insert_with(|| Pod { node: number % count, ..Pod::default() });
        if pod.sandbox != Sandbox::None {
            return;
        }
        pod.sandboxes += 1;
        let container = format!("c{number}-{}", pod.sandboxes);
        pod.sandbox = Sandbox::Starting(container.clone());
        let node = pod.node;
        let sandbox = SandboxRequest {
            requests: self.requests(number, &container),
            what: "network a".into(),
            deadline: self.now + Duration::from_secs(15),
            restore: false,
        };
        self.nodes[node].allocator.push_assignment(sandbox, Ticket::Add { pod: number, container });
    }

    /// Returns the requests of a sandbox, one per pool.
    fn requests(&self, number: usize, container: &str) -> Vec<AddressRequest> {
        let incarnation = self.pods[&number].incarnation;
        let mut ordinals: BTreeMap<bool, u8> = BTreeMap::new();
        let request = |pool: &Arc<AddressPool>| {
            let counter = ordinals.entry(pool.subnet().addr().is_ipv6()).or_default();
            *counter += 1;
            AddressRequest {
                pools: vec![pool.clone()],
                pod: PodRef {
                    namespace: "ns".into(),
                    name: format!("p{number}"),
                    uid: format!("u{number}-{incarnation}"),
                },
                sticky: STICKY_PODS.contains(&number),
                interface: "net1".into(),
                ordinal: *counter - 1,
                container: container.into(),
            }
        };
        self.pools.iter().map(request).collect()
    }

    /// Deletes the sandbox of a pod. A StatefulSet pod is created again on the next node.
    pub fn delete(&mut self, number: usize) {
        let count = self.nodes.len();
        let Some(pod) = self.pods.get_mut(&number) else { return };
        let Some(container) = pod.sandbox.container().map(str::to_owned) else { return };
        let node = pod.node;
        pod.sandbox = Sandbox::None;
        pod.incarnation += 1;
        if STICKY_PODS.contains(&number) {
            pod.node = (pod.node + 1) % count;
        }
        self.release(node, container);
    }

    fn release(&mut self, node: usize, container: String) {
        let release = AddressRelease { container, ..AddressRelease::default() };
        self.nodes[node].allocator.push_release(release, Ticket::Release);
    }

    fn plan(&mut self, node: usize) {
        if self.nodes[node].calls.is_empty() {
            self.nodes[node].calls = self.nodes[node].allocator.next_calls(self.now, &|_| None);
            self.take_replies(node);
        }
    }

    fn deliver(&mut self, node: usize, deliveries: &[Delivery]) {
        let calls = std::mem::take(&mut self.nodes[node].calls);
        if calls.is_empty() {
            return;
        }
        let name = node_name(node);
        let mut outcomes = Vec::new();
        for (position, call) in calls.into_iter().enumerate() {
            let delivery = deliveries.get(position % deliveries.len().max(1)).copied();
            outcomes.push(match delivery.unwrap_or(Delivery::Executed) {
                Delivery::Executed => self.server.execute(&name, &call),
                Delivery::ReplyLost => {
                    self.server.execute(&name, &call);
                    CallOutcome::Unavailable
                }
                Delivery::Dropped => CallOutcome::Unavailable,
                Delivery::Delayed => {
                    self.delayed.push((node, call));
                    CallOutcome::Unavailable
                }
            });
        }
        self.nodes[node].allocator.finish_calls(outcomes);
        self.take_replies(node);
    }

    fn deliver_late(&mut self) {
        if !self.delayed.is_empty() {
            let (node, call) = self.delayed.remove(0);
            self.server.execute(&node_name(node), &call);
        }
    }

    fn take_replies(&mut self, node: usize) {
        for (ticket, reply) in self.nodes[node].allocator.take_replies() {
            let (Ticket::Add { pod: number, container }, AllocationReply::Assigned(result)) = (ticket, reply)
            else {
                continue;
            };
            let Some(pod) = self.pods.get_mut(&number) else { continue };
            if pod.sandbox.container() != Some(&container) {
                continue;
            }
            match result {
                Ok(addresses) => {
                    let addresses = addresses.into_iter().map(|(address, _)| address.addr()).collect();
                    pod.sandbox = Sandbox::Running(container, addresses);
                }
                Err(Fault { code, .. }) => {
                    self.exhausted += usize::from(code == FaultCode::PoolExhausted);
                    // The runtime deletes a sandbox whose ADD failed.
                    pod.sandbox = Sandbox::None;
                    self.release(node, container);
                }
            }
        }
    }

    fn crash(&mut self, node: usize) {
        let count = self.nodes.len();
        self.nodes[node] = Node { allocator: start(node, count), calls: Vec::new() };
        let starting = |pod: &Pod| pod.node == node && matches!(pod.sandbox, Sandbox::Starting(_));
        let failed = self.pods.values_mut().filter(|pod| starting(pod));
        let containers: Vec<_> = failed
            .filter_map(|pod| std::mem::take(&mut pod.sandbox).container().map(str::to_owned))
            .collect();
        containers.into_iter().for_each(|container| self.release(node, container));
    }

    fn fence(&mut self, node: usize) {
        let count = self.nodes.len();
        self.nodes[node] = Node { allocator: start(node, count), calls: Vec::new() };
        self.delayed.retain(|(sender, _)| *sender != node);
        for pod in self.pods.values_mut().filter(|pod| pod.node == node) {
            pod.sandbox = Sandbox::None;
            pod.incarnation += 1;
        }
        let ids: Vec<_> = self.server.blocks().map(|block| block.id()).collect();
        for id in ids {
            let Some((mut block, expected)) = self.server.read(&id) else { continue };
            let before = block.entries.len();
            block.entries.retain(|_, entry| entry.node != node_name(node));
            if block.entries.len() < before {
                assert!(self.server.write(&BlockWrite::Replace { block, expected }).is_some());
            }
        }
    }

    fn delete_empty(&mut self) {
        let ids: Vec<_> = self.server.blocks().map(|block| block.id()).collect();
        ids.iter().for_each(|id| self.server.delete_empty(id));
    }

    fn publish_index(&mut self) {
        let spaces: BTreeSet<_> = self.pools.iter().map(|pool| pool.space().clone()).collect();
        spaces.iter().for_each(|space| self.server.publish_index(space));
    }

    fn release_orphans(&mut self, node: usize) {
        let live: BTreeSet<_> =
            self.pods.values().filter_map(|pod| pod.sandbox.container()).map(str::to_owned).collect();
        let allocator = &self.nodes[node].allocator;
        let entries = allocator.view().iter().flat_map(|(block, _)| block.entries.values());
        let own = entries.filter(|entry| entry.node == node_name(node) && !entry.is_reserved());
        let orphans: BTreeSet<_> = own.map(|entry| entry.container.clone()).collect();
        for container in orphans.difference(&live) {
            self.release(node, container.clone());
        }
    }

    /// Lets all nodes finish what they have begun, without failures.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "no progress");
            for node in 0..self.nodes.len() {
                self.plan(node);
                self.deliver(node, &[Delivery::Executed]);
            }
            if self.nodes.iter().all(|node| node.allocator.pending() == 0 && node.calls.is_empty()) {
                return self.check_invariants();
            }
            self.now += Duration::from_millis(10);
        }
    }

    /// Settles, and lets all nodes find and release entries that nobody uses.
    pub fn clean_up(&mut self) {
        while !self.delayed.is_empty() {
            self.deliver_late();
        }
        self.settle();
        for node in 0..self.nodes.len() {
            self.nodes[node].allocator.relist();
        }
        self.settle();
        (0..self.nodes.len()).for_each(|node| self.release_orphans(node));
        self.settle();
        self.now += Duration::from_secs(6);
    }

    /// Checks what must hold at any time.
    pub fn check_invariants(&mut self) {
        for block in self.server.blocks() {
            for offset in block.entries.keys() {
                let address = block.address(*offset);
                let inside = |(space, low, high): &(IpSpace, IpAddr, IpAddr)| {
                    block.space == *space && (*low..=*high).contains(&address)
                };
                assert!(self.offered.iter().any(inside), "{address} is in no pool");
            }
        }
        for (number, pod) in &self.pods {
            let Sandbox::Running(container, addresses) = &pod.sandbox else { continue };
            for (pool, address) in self.pools.iter().zip(addresses) {
                let (id, offset) = IpBlockId::containing(pool.space(), *address);
                let block = self.server.read(&id).map(|(block, _)| block);
                let entry = block.as_ref().and_then(|block| block.entries.get(&offset));
                let holder = entry.map(|entry| (entry.pod.as_str(), entry.container.as_str()));
                let expected = format!("ns/p{number}");
                assert_eq!(holder, Some((expected.as_str(), container.as_str())), "{address} is lost");
            }
        }
        for node in 0..self.nodes.len() {
            let name = node_name(node);
            let labelled = self.server.execute(&name, &BlockCall::ListOwn);
            let CallOutcome::Blocks { blocks, .. } = labelled else { panic!() };
            let labelled: BTreeSet<_> = blocks.iter().map(|(block, _)| block.id()).collect();
            let used = self.server.blocks().filter(|block| block.is_used_by(&name)).map(|block| block.id());
            assert!(used.into_iter().all(|id| labelled.contains(&id)), "an entry has no label of {name}");
        }
    }

    /// Checks that exactly the running pods, and the reserved names, have addresses.
    pub fn check_exact(&self) {
        let mut running: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in self.pods.values() {
            if let Sandbox::Running(container, addresses) = &pod.sandbox {
                running.insert(container, addresses.len());
            }
        }
        let mut assigned: BTreeMap<&str, usize> = BTreeMap::new();
        let entries = self.server.blocks().flat_map(|block| block.entries.values());
        for entry in entries.filter(|entry| !entry.is_reserved()) {
            *assigned.entry(&entry.container).or_default() += 1;
        }
        // A write that was executed late can give a running sandbox a second address. It is released with the sandbox.
        let missing =
            running.iter().filter(|(pod, count)| assigned.get(**pod).is_none_or(|found| found < count));
        assert_eq!(missing.count(), 0, "{running:?} {assigned:?}");
        assert!(assigned.keys().all(|container| running.contains_key(container)), "{running:?} {assigned:?}");
    }

    pub fn is_running(&self, pod: usize) -> bool {
        self.pods.get(&pod).is_some_and(|pod| matches!(pod.sandbox, Sandbox::Running(..)))
    }

    pub fn addresses(&self, pod: usize) -> Vec<IpAddr> {
        match self.pods.get(&pod).map(|pod| &pod.sandbox) {
            Some(Sandbox::Running(_, addresses)) => addresses.clone(),
            _ => Vec::new(),
        }
    }

    pub fn running(&self) -> Vec<usize> {
        self.pods.keys().copied().filter(|pod| self.is_running(*pod)).collect()
    }

    pub fn assigned_in(&self, pool: &AddressPool) -> usize {
        let blocks = self.server.blocks().filter(|block| block.space == *pool.space());
        let taken = blocks.flat_map(|block| block.entries.keys().map(|offset| block.address(*offset)));
        taken.filter(|address| pool.contains(*address)).count()
    }
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn start(node: usize, count: usize) -> NodeAllocator<Ticket> {
    let mut allocator = NodeAllocator::new(node_name(node));
    allocator.set_node_count(count);
    allocator
}
