//! A cluster of nodes that plan, write and crash.

use crate::api_server::InMemoryApiServer;
use ferroband_address::{
    AddressPlanner, AddressPool, AddressRelease, AddressRequest, AssignmentPlan, BlockView, BlockWrite,
    Error, IpSpace,
};
use ferroband_model::PodRef;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum InterleavingStep {
    /// Plan addresses for these pods from the node's view, and store the plan.
    Plan { node: usize, pods: Vec<usize> },
    /// Execute up to `writes` further writes of the stored plan.
    Write { node: usize, writes: usize },
    /// Execute the remaining writes of the stored plan, and plan again after conflicts, until all requests
    /// are assigned or refused.
    Finish { node: usize },
    /// Let the node's watch catch up.
    Watch { node: usize },
    /// Kill the node's daemon and start it again.
    Crash { node: usize },
    /// Delete the current sandbox of a pod, which releases its addresses.
    Delete { pod: usize },
    /// Deliver a late DEL for an earlier sandbox of the pod.
    LateDelete { node: usize, pod: usize },
}

#[derive(Default)]
struct InterleavingNode {
    view: BlockView,
    /// The stored plan, as (requests, plan, number of executed writes, attempt).
    plan_in_progress: Option<(Vec<AddressRequest>, AssignmentPlan, usize, u32)>,
}

/// Addresses reported to a pod. The key is (interface, ordinal, whether the address is IPv6). The value is the address
/// and the sandbox that requested it.
type ReportedAddresses = BTreeMap<(String, u8, bool), (IpNet, String)>;

pub struct InterleavingCluster {
    server: InMemoryApiServer,
    nodes: Vec<InterleavingNode>,
    pools: Vec<Arc<AddressPool>>,
    /// Assignable ranges, as (space, first address, last address), written down independently of the pools.
    offered: Vec<(IpSpace, IpAddr, IpAddr)>,
    reported: BTreeMap<usize, ReportedAddresses>,
    /// Number of earlier sandboxes of each pod.
    sandboxes: BTreeMap<usize, usize>,
    /// Number of times that each pod was re-created with a new UID.
    incarnations: BTreeMap<usize, usize>,
}

impl InterleavingCluster {
    pub fn new(nodes: usize, pools: Vec<Arc<AddressPool>>, offered: Vec<(IpSpace, IpAddr, IpAddr)>) -> Self {
        let nodes = (0..nodes).map(|_| InterleavingNode::default()).collect();
        let (reported, sandboxes, incarnations) = Default::default();
        Self {
            server: InMemoryApiServer::default(),
            nodes,
            pools,
            offered,
            reported,
            sandboxes,
            incarnations,
        }
    }

    /// Returns the node of a pod, derived from the number of the pod. Pods never move.
    fn node_of(&self, pod: usize) -> usize {
        pod % self.nodes.len()
    }

    fn node_name(node: usize) -> String {
        format!("node-{node}")
    }

    fn container(&self, pod: usize) -> String {
        format!("c{pod}-{}", self.sandboxes.get(&pod).copied().unwrap_or_default())
    }

    /// Returns the requests of the pod's current sandbox, one per pool.
    fn requests(&self, pod: usize) -> Vec<AddressRequest> {
        let incarnation = self.incarnations.get(&pod).copied().unwrap_or_default();
        let mut ordinals: BTreeMap<bool, u8> = BTreeMap::new();
        let request = |pool: &Arc<AddressPool>| {
            let counter = ordinals.entry(pool.subnet().addr().is_ipv6()).or_default();
            *counter += 1;
            AddressRequest {
                pools: vec![pool.clone()],
                pod: PodRef {
                    namespace: "ns".into(),
                    name: format!("p{pod}"),
                    uid: format!("u{pod}-{incarnation}"),
                },
                sticky: false,
                interface: "net1".into(),
                ordinal: *counter - 1,
                container: self.container(pod),
            }
        };
        self.pools.iter().map(request).collect()
    }

    pub fn apply(&mut self, step: InterleavingStep) {
        match step {
            InterleavingStep::Plan { node, pods } => self.plan(node % self.nodes.len(), pods),
            InterleavingStep::Write { node, writes } => self.write(node % self.nodes.len(), writes),
            InterleavingStep::Finish { node } => self.finish_plan(node % self.nodes.len()),
            InterleavingStep::Watch { node } => self.watch(node % self.nodes.len()),
            InterleavingStep::Crash { node } => {
                let node = node % self.nodes.len();
                self.nodes[node] = InterleavingNode::default();
                self.watch(node);
            }
            InterleavingStep::Delete { pod } => {
                let (container, node) = (self.container(pod), self.node_of(pod));
                // As in the node daemon, an ADD in progress ends before the DEL of the same container starts.
                self.finish_plan(node);
                self.release(node, &AddressRelease { container, ..AddressRelease::default() });
                if self.reported.remove(&pod).is_some() {
                    *self.incarnations.entry(pod).or_default() += 1;
                }
                *self.sandboxes.entry(pod).or_default() += 1;
            }
            InterleavingStep::LateDelete { node, pod } => {
                let Some(earlier) = self.sandboxes.get(&pod).and_then(|count| count.checked_sub(1)) else {
                    return;
                };
                let release =
                    AddressRelease { container: format!("c{pod}-{earlier}"), ..AddressRelease::default() };
                self.release(node % self.nodes.len(), &release);
            }
        }
    }

    fn watch(&mut self, node: usize) {
        self.nodes[node].view = self.server.list(&Self::node_name(node));
    }

    fn plan(&mut self, node: usize, pods: Vec<usize>) {
        self.finish_plan(node);
        let pods: BTreeSet<usize> =
            pods.into_iter().filter(|pod| self.node_of(*pod) == node || *pod >= 1000).collect();
        for pod in &pods {
            // Half of the running pods request their addresses again from a new sandbox.
            if self.reported.get(pod).is_some_and(|reported| !reported.is_empty()) && pod % 2 == 0 {
                *self.sandboxes.entry(*pod).or_default() += 1;
            }
        }
        let requests: Vec<_> = pods.iter().flat_map(|pod| self.requests(*pod)).collect();
        let plan = self.plan_with_full_blocks(node, 0, &requests);
        let state = |view: &BlockView| -> Vec<_> {
            view.iter().map(|(block, version)| (block.id(), version.clone())).collect()
        };
        if state(&self.server.list("other")) == state(&self.nodes[node].view) {
            self.check_refusals(&requests, &plan);
        }
        self.nodes[node].plan_in_progress = Some((requests, plan, 0, 0));
    }

    /// Plans repeatedly. After each plan, reads the compact blocks that the plan writes, until it writes only full
    /// blocks.
    fn plan_with_full_blocks(
        &mut self,
        node: usize,
        attempt: u32,
        requests: &[AddressRequest],
    ) -> AssignmentPlan {
        let name = Self::node_name(node);
        for _ in 0..100 {
            let planner = AddressPlanner { node: &name, node_count: self.nodes.len(), attempt };
            let plan = planner.plan_assignments(&self.nodes[node].view, requests);
            let written = plan.writes.iter().map(|write| write.block());
            let unread: Vec<_> =
                written.filter(|block| self.nodes[node].view.is_compact(&block.id())).cloned().collect();
            if unread.is_empty() {
                return plan;
            }
            for block in unread {
                let view = &mut self.nodes[node].view;
                match self.server.read(&block.object_name()) {
                    Some((present, version)) => view.refresh(present, version),
                    None => view.remove(&block.id()),
                }
            }
        }
        panic!("planning does not converge for {requests:?}");
    }

    /// Executes up to `count` more writes of the stored plan. Conflicts are left to [`Self::finish_plan`].
    fn write(&mut self, node: usize, count: usize) {
        let Some((requests, plan, done, attempt)) = self.nodes[node].plan_in_progress.take() else { return };
        let upto = (done + count).min(plan.writes.len());
        for (position, write) in plan.writes.iter().enumerate().take(upto).skip(done) {
            if self.try_write(node, write) {
                self.report(&requests, &plan, Some(position));
            }
        }
        self.nodes[node].plan_in_progress = Some((requests, plan, upto, attempt));
    }

    /// Executes one write and updates the node's view. Returns false on a conflict.
    fn try_write(&mut self, node: usize, write: &BlockWrite) -> bool {
        let block = write.block();
        let written = self.server.write(write);
        let won = written.is_ok();
        let view = &mut self.nodes[node].view;
        match written {
            Ok(version) => view.observe(block.clone(), version),
            Err(()) => match self.server.read(&block.object_name()) {
                Some((present, version)) => view.refresh(present, version),
                None => view.remove(&block.id()),
            },
        }
        won
    }

    fn finish_plan(&mut self, node: usize) {
        let Some((requests, plan, done, attempt)) = self.nodes[node].plan_in_progress.take() else { return };
        self.finish_writes(node, requests, plan, done, attempt);
    }

    fn finish_writes(
        &mut self,
        node: usize,
        mut requests: Vec<AddressRequest>,
        mut plan: AssignmentPlan,
        mut done: usize,
        mut attempt: u32,
    ) {
        let (mut listed, mut rounds) = (false, 0);
        loop {
            self.report(&requests, &plan, None);
            for (position, write) in plan.writes.iter().enumerate().skip(done) {
                if self.try_write(node, write) {
                    self.report(&requests, &plan, Some(position));
                }
            }
            // Requests that have no address yet are planned again. If all of them were refused, they are planned once
            // more from a fresh view.
            let unserved: Vec<_> =
                requests.iter().filter(|request| !self.was_reported(request)).cloned().collect();
            if unserved.is_empty() {
                return;
            }
            if plan.refusals.len() == unserved.len() {
                if listed {
                    return self.check_refusals(&requests, &plan);
                }
                self.watch(node);
                listed = true;
                // Plan with attempt 0, because refusals of a first attempt must be right too.
                attempt = 0;
            } else {
                attempt += 1;
            }
            rounds += 1;
            assert!(rounds < 200, "no progress: {unserved:?}");
            plan = self.plan_with_full_blocks(node, attempt, &unserved);
            requests = unserved;
            done = 0;
        }
    }

    /// Checks the refusals of a plan that was made from a fresh view. A refusal is right only if some pool of the
    /// sandbox has fewer free addresses than the sandbox requests.
    fn check_refusals(&self, requests: &[AddressRequest], plan: &AssignmentPlan) {
        for refusal in &plan.refusals {
            let request = &requests[refusal.request];
            assert!(matches!(refusal.error, Error::Exhausted { .. }), "{:?}", refusal.error);
            let sandbox_requests =
                || requests.iter().filter(|other_request| other_request.container == request.container);
            let short = sandbox_requests().any(|other_request| {
                let pool = &other_request.pools[0];
                let sharing =
                    sandbox_requests().filter(|other| other.pools[0].space() == pool.space()).count();
                let planned = plan.assignments.iter().filter(|assignment| assignment.write.is_some());
                let planned = planned.filter(|assignment| {
                    let served = &requests[assignment.request];
                    served.pools[0].space() == pool.space() && pool.contains(assignment.address.addr())
                });
                (pool.capacity() as usize).saturating_sub(self.count_assigned(pool) + planned.count())
                    < sharing
            });
            assert!(short, "refused although an address is free: {refusal:?}");
        }
    }

    fn was_reported(&self, request: &AddressRequest) -> bool {
        let key = (request.interface.clone(), request.ordinal, request.pools[0].subnet().addr().is_ipv6());
        let sandbox = |reported: &ReportedAddresses| {
            reported.get(&key).is_some_and(|(_, container)| *container == request.container)
        };
        self.reported.values().any(sandbox)
    }

    /// Reports addresses to their pods: those that the write with index `write` assigns, or, if it is `None`, those
    /// that needed no write.
    fn report(&mut self, requests: &[AddressRequest], plan: &AssignmentPlan, write: Option<usize>) {
        for assignment in plan.assignments.iter().filter(|assignment| assignment.write == write) {
            let request = &requests[assignment.request];
            let pod: usize = request.pod.name[1..].parse().unwrap();
            let key = (request.interface.clone(), request.ordinal, assignment.address.addr().is_ipv6());
            let now = (assignment.address, request.container.clone());
            if let Some((before, _)) = self.reported.entry(pod).or_default().insert(key, now) {
                assert_eq!(
                    before, assignment.address,
                    "{} got another address for a repeated request",
                    request.pod
                );
            }
        }
    }

    pub fn release(&mut self, node: usize, release: &AddressRelease) {
        self.watch(node);
        let plan = AddressPlanner::plan_releases(&self.nodes[node].view, std::slice::from_ref(release));
        for write in &plan.writes {
            assert!(self.try_write(node, write), "a release from a fresh view must not conflict");
        }
        for reported in self.reported.values_mut() {
            reported.retain(|_, (_, container)| *container != release.container);
        }
    }

    pub fn finish_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.finish_plan(node));
    }

    /// Panics if an address is in no pool or in two blocks, or if an owner has two addresses or has lost a
    /// reported one.
    pub fn check_invariants(&self) {
        let mut owners: BTreeMap<(String, IpAddr), String> = BTreeMap::new();
        let mut addresses: BTreeMap<String, IpAddr> = BTreeMap::new();
        for block in self.server.blocks() {
            assert_eq!(block.used() + block.free(), 16);
            for (offset, entry) in &block.entries {
                assert!(*offset < 16);
                let address = block.address(*offset);
                let inside = |(space, low, high): &(IpSpace, IpAddr, IpAddr)| {
                    *space == block.space && (*low..=*high).contains(&address)
                };
                assert!(self.offered.iter().any(inside), "{address} is in no pool");
                let owner =
                    format!("{}/{}/{}/{}", entry.uid, entry.interface, entry.ordinal, address.is_ipv6());
                let place = (block.space.to_string(), address);
                assert_eq!(owners.insert(place, owner.clone()), None, "{address} is in two blocks");
                assert_eq!(addresses.insert(owner.clone(), address), None, "{owner} has two addresses");
            }
        }
        for (pod, reported) in &self.reported {
            let incarnation = self.incarnations.get(pod).copied().unwrap_or_default();
            for ((interface, ordinal, v6), (address, _)) in reported {
                let owner = format!("u{pod}-{incarnation}/{interface}/{ordinal}/{v6}");
                assert_eq!(addresses.get(&owner), Some(&address.addr()), "{owner} lost its reported address");
            }
        }
    }

    fn count_assigned(&self, pool: &AddressPool) -> usize {
        let blocks = self.server.blocks().filter(|block| block.space == *pool.space());
        let taken = blocks.flat_map(|block| block.entries.keys().map(|offset| block.address(*offset)));
        taken.filter(|address| pool.contains(*address)).count()
    }

    pub fn assigned_in(&self, pool: &AddressPool) -> usize {
        self.count_assigned(pool)
    }

    /// Whether every node with a fresh view refuses a pod that has no address yet.
    pub fn is_refused_on_every_node(&mut self, pod: usize) -> bool {
        (0..self.nodes.len()).all(|node| {
            self.watch(node);
            let requests = self.requests(pod);
            let plan = self.plan_with_full_blocks(node, 0, &requests);
            plan.writes.is_empty() && plan.refusals.len() == requests.len()
        })
    }

    /// Returns `node` and the sandbox of the first pod that has an address; `None` if no pod has one.
    pub fn any_sandbox(&self, node: usize) -> Option<(usize, String)> {
        self.reported
            .values()
            .flat_map(BTreeMap::values)
            .next()
            .map(|(_, container)| (node, container.clone()))
    }
}
