use super::*;
use crate::whereabouts::WhereaboutsConfig;
use crate::{BlockWrite, InMemoryBlocks, IpBlockId, IpSpace};
use ferroband_model::{FaultCode, PodRef};
use serde_json::json;
use std::net::IpAddr;

/// Nodes that share one API server. All calls of a round are executed before the next round begins.
struct Cluster {
    server: InMemoryBlocks,
    nodes: Vec<NodeAllocator<usize>>,
    calls: Vec<BlockCall>,
    replies: Vec<(usize, AllocationReply)>,
    now: Duration,
}

impl Cluster {
    /// Starts nodes that have listed their blocks.
    fn start(count: usize) -> Self {
        let start = |node: usize| {
            let mut node = NodeAllocator::new(format!("node-{node}"));
            node.set_node_count(count);
            node
        };
        let (server, calls, replies) = Default::default();
        let nodes = (0..count).map(start).collect();
        let mut cluster = Self { server, nodes, calls, replies, now: Duration::from_secs(100) };
        cluster.run_round();
        cluster.calls.clear();
        cluster
    }

    /// Executes one round of all nodes, first the calls of one node and then of the next. Returns whether there were calls.
    fn run_round(&mut self) -> bool {
        let now = self.now;
        let rounds: Vec<_> = self.nodes.iter_mut().map(|node| node.next_calls(now, &|_| None)).collect();
        let mut any = false;
        for (node, calls) in self.nodes.iter_mut().zip(rounds) {
            any |= !calls.is_empty();
            let outcomes = calls.iter().map(|call| self.server.execute(&node.node, call)).collect();
            node.finish_calls(outcomes);
            self.calls.extend(calls);
            self.replies.extend(node.take_replies());
        }
        self.now += Duration::from_millis(10);
        any
    }

    /// Runs until no node has calls. Returns the number of rounds with writes.
    fn settle(&mut self) -> usize {
        let mut rounds = 0;
        loop {
            let before = self.calls.len();
            if !self.run_round() {
                return rounds;
            }
            let wrote = self.calls[before..].iter().any(|call| matches!(call, BlockCall::Write(_)));
            rounds += usize::from(wrote);
            assert!(rounds < 100, "no progress");
        }
    }

    fn request(&mut self, node: usize, sandbox: SandboxRequest, ticket: usize) {
        let deadline = self.now + Duration::from_secs(15);
        self.nodes[node].push_assignment(SandboxRequest { deadline, ..sandbox }, ticket);
    }

    /// Assigns an address to a pod, and returns it with the calls that it took.
    fn assign(&mut self, node: usize, pod: usize, range: &str) -> (Result<IpAddr, Fault>, Vec<BlockCall>) {
        self.calls.clear();
        self.request(node, sandbox(pod, range, false), pod);
        self.settle();
        (self.take_address(pod), std::mem::take(&mut self.calls))
    }

    fn take_address(&mut self, ticket: usize) -> Result<IpAddr, Fault> {
        let position = self.replies.iter().position(|(found, _)| *found == ticket).expect("a reply");
        match self.replies.remove(position).1 {
            AllocationReply::Assigned(result) => result.map(|addresses| addresses[0].0.addr()),
            AllocationReply::Released => panic!("not an assignment"),
        }
    }

    fn release(&mut self, node: usize, pod: usize) -> Vec<BlockCall> {
        self.calls.clear();
        let release = AddressRelease { container: format!("c{pod}"), ..AddressRelease::default() };
        self.nodes[node].push_release(release, usize::MAX);
        self.settle();
        std::mem::take(&mut self.calls)
    }
}

fn sandbox(pod: usize, range: &str, sticky: bool) -> SandboxRequest {
    let ipam = json!({"type": "whereabouts", "range": range});
    let config = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
    let pod_ref = PodRef { namespace: "ns".into(), name: format!("p{pod}"), uid: format!("u{pod}") };
    let requests = config.requests(&pod_ref, sticky, "net1", &format!("c{pod}"));
    SandboxRequest { requests, what: "network a".into(), deadline: Duration::MAX, restore: false }
}

fn writes(calls: &[BlockCall]) -> usize {
    calls.iter().filter(|call| matches!(call, BlockCall::Write(_))).count()
}

#[test]
fn assignment_and_release_take_one_request_each() {
    for range in ["10.0.0.0/28", "10.0.0.0/24", "10.0.0.0/16", "fd00::/64"] {
        let mut cluster = Cluster::start(3);
        for pod in 0..3 {
            let (address, calls) = cluster.assign(0, pod, range);
            address.unwrap();
            assert_eq!((calls.len(), writes(&calls)), (1, 1), "{range}: {calls:?}");
        }
        let calls = cluster.release(0, 1);
        assert_eq!((calls.len(), writes(&calls)), (1, 1), "{range}: {calls:?}");
        assert_eq!(cluster.release(0, 1), [], "nothing to release");
    }
}

#[test]
fn second_node_finds_free_addresses_of_a_small_pool_by_one_read() {
    let mut cluster = Cluster::start(2);
    cluster.assign(0, 1, "10.0.0.0/28").0.unwrap();
    let (address, calls) = cluster.assign(1, 2, "10.0.0.0/28");
    assert_ne!(address.unwrap(), IpAddr::from([10, 0, 0, 1]));
    assert!(
        matches!(&calls[..], [BlockCall::Write(_), BlockCall::Read(_), BlockCall::Write(_)]),
        "{calls:?}"
    );
}

#[test]
fn repeated_request_is_confirmed_by_a_read() {
    let mut cluster = Cluster::start(1);
    let (first, _) = cluster.assign(0, 1, "10.0.0.0/24");
    let (again, calls) = cluster.assign(0, 1, "10.0.0.0/24");
    assert_eq!(first, again);
    assert!(matches!(&calls[..], [BlockCall::Read(_)]), "{calls:?}");
    // The leader has removed the entry, for example because the node was fenced.
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let (mut block, expected) = cluster.server.read(&id).unwrap();
    block.entries.clear();
    cluster.server.write(&BlockWrite::Replace { block, expected }).unwrap();
    let (_, calls) = cluster.assign(0, 1, "10.0.0.0/24");
    assert!(matches!(&calls[..], [BlockCall::Read(_), BlockCall::Write(_)]), "{calls:?}");
}

/// 1,250 nodes on 512 blocks: the same load as 10,000 nodes on a /16 pool.
#[test]
fn many_nodes_at_once_need_few_requests_and_rounds() {
    let mut cluster = Cluster::start(1250);
    for node in 0..1250 {
        cluster.request(node, sandbox(node, "10.0.0.0/19", false), node);
    }
    let rounds = cluster.settle();
    let requests = cluster.calls.len() as f64 / 1250.0;
    assert!(requests <= 1.3 && rounds <= 5, "{requests} requests per address, {rounds} rounds");
    assert!(cluster.replies.iter().all(|(_, reply)| matches!(reply, AllocationReply::Assigned(Ok(_)))));
}

#[test]
fn nobody_is_refused_while_an_address_is_free() {
    // 254 addresses for 250 pods, on nodes that start at the same time.
    let mut cluster = Cluster::start(250);
    for index in [false, true] {
        for node in 0..250 {
            let pod = node + if index { 1000 } else { 0 };
            cluster.request(
                node,
                sandbox(pod, if index { "10.1.0.0/24" } else { "10.0.0.0/24" }, false),
                pod,
            );
            if index && node == 220 {
                cluster.settle();
                cluster.server.publish_index(&IpSpace::default_space());
            }
        }
        cluster.settle();
        let pods = if index { 1000..1250 } else { 0..250 };
        let refused: Vec<_> = pods.filter_map(|pod| cluster.take_address(pod).err()).collect();
        assert_eq!(refused, [], "index: {index}");
        let lists = cluster.calls.iter().filter(|call| matches!(call, BlockCall::ListSpace(_))).count();
        assert!(lists <= 250 * 2, "{lists} lists");
        cluster.calls.clear();
    }
}

#[test]
fn index_leads_to_free_blocks_without_a_list() {
    let mut cluster = Cluster::start(4);
    // Node 0 takes all addresses of a pool with 64 blocks except those of 4 blocks.
    for pod in 0..958 {
        cluster.request(0, sandbox(100_000 + pod, "10.0.0.0/22", false), 100_000 + pod);
    }
    cluster.settle();
    cluster.server.publish_index(&IpSpace::default_space());
    let (address, calls) = cluster.assign(1, 1, "10.0.0.0/22");
    address.unwrap();
    assert!(!calls.iter().any(|call| matches!(call, BlockCall::ListSpace(_))), "{calls:?}");
    assert!(calls.len() <= 8, "{calls:?}");
}

#[test]
fn exhausted_pool_is_listed_once_in_five_seconds_for_all_requests() {
    let mut cluster = Cluster::start(2);
    for pod in 0..254 {
        cluster.request(0, sandbox(1000 + pod, "10.0.0.0/24", false), 1000 + pod);
    }
    cluster.settle();
    cluster.calls.clear();
    for pod in 0..5 {
        cluster.request(1, sandbox(pod, "10.0.0.0/24", false), pod);
    }
    cluster.settle();
    let lists = |cluster: &Cluster| {
        cluster.calls.iter().filter(|call| matches!(call, BlockCall::ListSpace(_))).count()
    };
    assert_eq!(lists(&cluster), 1);
    for pod in 0..5 {
        let fault = cluster.take_address(pod).unwrap_err();
        assert_eq!(fault.code, FaultCode::PoolExhausted, "{fault}");
        assert!(fault.cause.contains(" on node-0"), "the holders are named: {fault}");
    }
    let (refused, calls) = cluster.assign(1, 7, "10.0.0.0/24");
    assert_eq!((refused.is_err(), calls), (true, Vec::new()), "answered from the last list");
    cluster.release(0, 1000);
    cluster.now += Duration::from_secs(5);
    cluster.assign(1, 7, "10.0.0.0/24").0.unwrap();
}

#[test]
fn pointer_is_written_before_the_entry_of_a_statefulset_pod() {
    let mut cluster = Cluster::start(2);
    cluster.request(0, sandbox(1, "10.0.0.0/24", true), 1);
    cluster.settle();
    let address = cluster.take_address(1).unwrap();
    let calls = std::mem::take(&mut cluster.calls);
    let [BlockCall::ReadSticky(_), BlockCall::WriteSticky(_, record), BlockCall::Write(_)] = &calls[..]
    else {
        panic!("{calls:?}")
    };
    assert_eq!(record.addresses[0].address, address);

    // The pod moves. Its address is refused as long as its sandbox may run.
    let mut moved = sandbox(1, "10.0.0.0/24", true);
    moved.requests[0].container = "c2".into();
    moved.requests[0].pod.uid = "u2".into();
    cluster.request(1, moved.clone(), 2);
    cluster.settle();
    assert_eq!(cluster.take_address(2).unwrap_err().code, FaultCode::AddressHeld);
    cluster.release(0, 1);
    cluster.now += Duration::from_secs(5);
    cluster.request(1, moved, 2);
    cluster.settle();
    assert_eq!(cluster.take_address(2).unwrap(), address);
    let calls = std::mem::take(&mut cluster.calls);
    assert!(
        matches!(&calls[..], [BlockCall::ReadSticky(_), BlockCall::Read(_), BlockCall::Write(_)]),
        "{calls:?}"
    );
}

#[test]
fn closed_pool_is_skipped_and_its_addresses_are_kept() {
    let mut cluster = Cluster::start(1);
    let (first, _) = cluster.assign(0, 1, "10.0.0.0/24");
    let fault = Fault::new(FaultCode::AddressHeld, "a", "blocked", "none");
    let gate = |pool: &AddressPool| pool.contains([10, 0, 0, 9].into()).then(|| fault.clone());
    let mut pods = vec![sandbox(1, "10.0.0.0/24", false), sandbox(2, "10.0.0.0/24", false)];
    pods.push(sandbox(3, "10.0.0.0/24", false));
    let open = sandbox(3, "10.0.1.0/24", false).requests[0].pools[0].clone();
    pods[2].requests[0].pools.push(open);
    for (ticket, pod) in pods.into_iter().enumerate() {
        cluster.request(0, pod, ticket);
    }
    for _ in 0..4 {
        let calls = cluster.nodes[0].next_calls(cluster.now, &gate);
        let outcomes = calls.iter().map(|call| cluster.server.execute("node-0", call)).collect();
        cluster.nodes[0].finish_calls(outcomes);
    }
    cluster.replies = cluster.nodes[0].take_replies();
    assert_eq!(cluster.take_address(0), first, "an owner keeps its address");
    assert_eq!(cluster.take_address(2).unwrap(), IpAddr::from([10, 0, 1, 1]), "the other pool is open");
    assert_eq!(cluster.nodes[0].pending(), 1, "the other request waits");
    cluster.now += Duration::from_secs(16);
    assert_eq!(cluster.nodes[0].next_calls(cluster.now, &gate), []);
    cluster.replies = cluster.nodes[0].take_replies();
    assert_eq!(cluster.take_address(1).unwrap_err(), fault);
}

#[test]
fn release_cancels_the_queued_assignment_of_its_sandbox() {
    let mut cluster = Cluster::start(1);
    cluster.request(0, sandbox(1, "10.0.0.0/24", false), 1);
    assert_eq!(cluster.release(0, 1), []);
    assert!(!cluster.replies.iter().any(|(ticket, _)| *ticket == 1));
    assert_eq!(cluster.nodes[0].pending(), 0);
}
