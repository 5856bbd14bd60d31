//! Nodes that plan, write and die.

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
    /// Make a plan for these pods from what the node knows, and keep it.
    Plan { node: usize, pods: Vec<usize> },
    /// Carry out some of the kept plan's writes.
    Write { node: usize, writes: usize },
    /// Carry out the rest, planning again what loses, until all is answered or refused.
    Finish { node: usize },
    /// Let the node's watch catch up.
    Watch { node: usize },
    /// Stop the daemon where it stands and start it again.
    Crash { node: usize },
    /// The sandbox of a pod is gone.
    Delete { pod: usize },
    /// A DEL for an earlier sandbox of the pod arrives late.
    LateDelete { node: usize, pod: usize },
}

#[derive(Default)]
struct InterleavingNode {
    view: BlockView,
    /// A plan under way: what was asked, what was planned, how many writes are done.
    plan_in_progress: Option<(Vec<AddressRequest>, AssignmentPlan, usize, u32)>,
}

/// What a pod was told: for interface, ordinal and whether it is IPv6, the address and the sandbox that asked.
type ReportedAddresses = BTreeMap<(String, u8, bool), (IpNet, String)>;

pub struct InterleavingCluster {
    server: InMemoryApiServer,
    nodes: Vec<InterleavingNode>,
    pools: Vec<Arc<AddressPool>>,
    /// What may be given out, written down beside the pools and not computed from them.
    offered: Vec<(IpSpace, IpAddr, IpAddr)>,
    reported: BTreeMap<usize, ReportedAddresses>,
    /// How many sandboxes and how many lives each pod has had.
    sandboxes: BTreeMap<usize, usize>,
    incarnations: BTreeMap<usize, usize>,
}

impl InterleavingCluster {
    pub fn new(nodes: usize, pools: Vec<Arc<AddressPool>>, offered: Vec<(IpSpace, IpAddr, IpAddr)>) -> Self {
        let nodes = (0..nodes).map(|_| InterleavingNode::default()).collect();
        let (told, sandboxes, lives) = Default::default();
        Self {
            server: InMemoryApiServer::default(),
            nodes,
            pools,
            offered,
            reported: told,
            sandboxes,
            incarnations: lives,
        }
    }

    /// Pods stay on their node; which one follows from their number.
    fn node_of(&self, pod: usize) -> usize {
        pod % self.nodes.len()
    }

    fn node_name(node: usize) -> String {
        format!("node-{node}")
    }

    fn container(&self, pod: usize) -> String {
        format!("c{pod}-{}", self.sandboxes.get(&pod).copied().unwrap_or_default())
    }

    /// The pod's requests, one for each pool, in its present sandbox.
    fn requests(&self, pod: usize) -> Vec<AddressRequest> {
        let life = self.incarnations.get(&pod).copied().unwrap_or_default();
        let mut ordinals: BTreeMap<bool, u8> = BTreeMap::new();
        let request = |pool: &Arc<AddressPool>| {
            let counter = ordinals.entry(pool.subnet().addr().is_ipv6()).or_default();
            *counter += 1;
            AddressRequest {
                pools: vec![pool.clone()],
                pod: PodRef {
                    namespace: "ns".into(),
                    name: format!("p{pod}"),
                    uid: format!("u{pod}-{life}"),
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
                // What is under way for a sandbox ends before its DEL, as the lock per container makes sure.
                self.finish_plan(node);
                self.release(node, &AddressRelease { container, interface: None });
                if self.reported.remove(&pod).is_some() {
                    *self.incarnations.entry(pod).or_default() += 1;
                }
                *self.sandboxes.entry(pod).or_default() += 1;
            }
            InterleavingStep::LateDelete { node, pod } => {
                let Some(earlier) = self.sandboxes.get(&pod).and_then(|count| count.checked_sub(1)) else {
                    return;
                };
                let release = AddressRelease { container: format!("c{pod}-{earlier}"), interface: None };
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
            // Every other time a living pod asks again from a new sandbox.
            if self.reported.get(pod).is_some_and(|told| !told.is_empty()) && pod % 2 == 0 {
                *self.sandboxes.entry(*pod).or_default() += 1;
            }
        }
        let requests: Vec<_> = pods.iter().flat_map(|pod| self.requests(*pod)).collect();
        let plan = self.plan_with_full_blocks(node, 0, &requests);
        let state = |view: &BlockView| -> Vec<_> {
            view.iter().map(|(granule, version)| (granule.id(), version.clone())).collect()
        };
        if state(&self.server.list("nobody")) == state(&self.nodes[node].view) {
            self.check_refusals(&requests, &plan);
        }
        self.nodes[node].plan_in_progress = Some((requests, plan, 0, 0));
    }

    /// A plan in which every granule that is written is known whole.
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
                written.filter(|granule| self.nodes[node].view.is_compact(&granule.id())).cloned().collect();
            if unread.is_empty() {
                return plan;
            }
            for granule in unread {
                let view = &mut self.nodes[node].view;
                match self.server.read(&granule.object_name()) {
                    Some((present, version)) => view.refresh(present, version),
                    None => view.remove(&granule.id()),
                }
            }
        }
        panic!("granules are read again and again for {requests:?}");
    }

    /// Carries out up to `count` more writes; the rest of a plan that lost is left for [`Cluster::settle`].
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

    /// One write and what the node learns from it.
    fn try_write(&mut self, node: usize, write: &BlockWrite) -> bool {
        let granule = write.block();
        let written = self.server.write(write);
        let won = written.is_ok();
        let view = &mut self.nodes[node].view;
        match written {
            Ok(version) => view.observe(granule.clone(), version),
            Err(()) => match self.server.read(&granule.object_name()) {
                Some((present, version)) => view.refresh(present, version),
                None => view.remove(&granule.id()),
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
            // Whoever was not told is planned again, the refused ones from a full view.
            let again: Vec<_> =
                requests.iter().filter(|request| !self.was_reported(request)).cloned().collect();
            if again.is_empty() {
                return;
            }
            if plan.refusals.len() == again.len() {
                if listed {
                    return self.check_refusals(&requests, &plan);
                }
                self.watch(node);
                listed = true;
                // The first choice has to be right too, not only a spread one.
                attempt = 0;
            } else {
                attempt += 1;
            }
            rounds += 1;
            assert!(rounds < 200, "no end: {again:?}");
            plan = self.plan_with_full_blocks(node, attempt, &again);
            requests = again;
            done = 0;
        }
    }

    /// A refusal from a full view is right only if some pool of the sandbox has fewer free addresses than the
    /// sandbox needs of it.
    fn check_refusals(&self, requests: &[AddressRequest], plan: &AssignmentPlan) {
        for refusal in &plan.refusals {
            let request = &requests[refusal.request];
            assert!(matches!(refusal.error, Error::Exhausted { .. }), "{:?}", refusal.error);
            let mates = || requests.iter().filter(|mate| mate.container == request.container);
            let short = mates().any(|mate| {
                let pool = &mate.pools[0];
                let sharing = mates().filter(|other| other.pools[0].space() == pool.space()).count();
                let planned = plan.assignments.iter().filter(|answer| answer.write.is_some());
                let planned = planned.filter(|answer| {
                    let served = &requests[answer.request];
                    served.pools[0].space() == pool.space() && pool.contains(answer.address.addr())
                });
                (pool.capacity() as usize).saturating_sub(self.count_assigned(pool) + planned.count())
                    < sharing
            });
            assert!(short, "refused although there is room: {refusal:?}");
        }
    }

    fn was_reported(&self, request: &AddressRequest) -> bool {
        let key = (request.interface.clone(), request.ordinal, request.pools[0].subnet().addr().is_ipv6());
        let sandbox = |told: &ReportedAddresses| {
            told.get(&key).is_some_and(|(_, container)| *container == request.container)
        };
        self.reported.values().any(sandbox)
    }

    /// Tells the pods whose addresses stand now: those of `write`, or those that stood already.
    fn report(&mut self, requests: &[AddressRequest], plan: &AssignmentPlan, write: Option<usize>) {
        for answer in plan.assignments.iter().filter(|answer| answer.write == write) {
            let request = &requests[answer.request];
            let pod: usize = request.pod.name[1..].parse().unwrap();
            let key = (request.interface.clone(), request.ordinal, answer.address.addr().is_ipv6());
            let now = (answer.address, request.container.clone());
            if let Some((before, _)) = self.reported.entry(pod).or_default().insert(key, now) {
                assert_eq!(before, answer.address, "{} got another address on asking again", request.pod);
            }
        }
    }

    pub fn release(&mut self, node: usize, release: &AddressRelease) {
        self.watch(node);
        let plan = AddressPlanner::plan_releases(&self.nodes[node].view, std::slice::from_ref(release));
        for write in &plan.writes {
            assert!(self.try_write(node, write), "nobody interferes here");
        }
        for told in self.reported.values_mut() {
            told.retain(|_, (_, container)| *container != release.container);
        }
    }

    pub fn finish_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.finish_plan(node));
    }

    /// Looks at the server alone, and at what pods were told.
    pub fn check_invariants(&self) {
        let mut owners: BTreeMap<(String, IpAddr), String> = BTreeMap::new();
        let mut addresses: BTreeMap<String, IpAddr> = BTreeMap::new();
        for granule in self.server.blocks() {
            assert_eq!(granule.used() + granule.free(), 16);
            for (offset, entry) in &granule.entries {
                assert!(*offset < 16);
                let address = granule.address(*offset);
                let inside = |(space, low, high): &(IpSpace, IpAddr, IpAddr)| {
                    *space == granule.space && (*low..=*high).contains(&address)
                };
                assert!(self.offered.iter().any(inside), "{address} is in no pool");
                let owner =
                    format!("{}/{}/{}/{}", entry.uid, entry.interface, entry.ordinal, address.is_ipv6());
                let place = (granule.space.to_string(), address);
                assert_eq!(owners.insert(place, owner.clone()), None, "{address} stands in two granules");
                assert_eq!(addresses.insert(owner.clone(), address), None, "{owner} has two addresses");
            }
        }
        for (pod, told) in &self.reported {
            let life = self.incarnations.get(pod).copied().unwrap_or_default();
            for ((interface, ordinal, v6), (address, _)) in told {
                let owner = format!("u{pod}-{life}/{interface}/{ordinal}/{v6}");
                assert_eq!(addresses.get(&owner), Some(&address.addr()), "{owner} lost what it was told");
            }
        }
    }

    fn count_assigned(&self, pool: &AddressPool) -> usize {
        let granules = self.server.blocks().filter(|granule| granule.space == *pool.space());
        let taken =
            granules.flat_map(|granule| granule.entries.keys().map(|offset| granule.address(*offset)));
        taken.filter(|address| pool.contains(*address)).count()
    }

    pub fn assigned_in(&self, pool: &AddressPool) -> usize {
        self.count_assigned(pool)
    }

    /// Whether a pod that has nothing yet is refused on every node, with the truth known.
    pub fn is_refused_on_every_node(&mut self, pod: usize) -> bool {
        (0..self.nodes.len()).all(|node| {
            self.watch(node);
            let requests = self.requests(pod);
            let plan = self.plan_with_full_blocks(node, 0, &requests);
            plan.writes.is_empty() && plan.refusals.len() == requests.len()
        })
    }

    /// Some pod's sandbox.
    pub fn any_sandbox(&self, node: usize) -> Option<(usize, String)> {
        self.reported
            .values()
            .flat_map(BTreeMap::values)
            .next()
            .map(|(_, container)| (node, container.clone()))
    }
}
