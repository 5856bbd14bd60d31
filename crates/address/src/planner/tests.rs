use super::*;
use crate::{
    AddressRelease, BlockAddition, BlockWrite, InMemoryBlocks, IpBlock, IpBlockId, IpSpace,
    whereabouts::WhereaboutsConfig,
};
use ferroband_model::PodRef;
use serde_json::json;
use std::collections::HashSet;

/// The stored blocks, and the view of a node that knows all of them.
#[derive(Default)]
struct KnownBlocks {
    stored: InMemoryBlocks,
    view: BlockView,
}

impl KnownBlocks {
    fn put(&mut self, block: IpBlock) {
        let (id, holder, entries) = (block.id(), block.node, block.entries);
        self.write(&BlockWrite::Add(BlockAddition { id, holder, entries, exists: false }));
    }

    fn write(&mut self, write: &BlockWrite) {
        let (block, version) = self.stored.write(write).expect("no conflict");
        self.view.observe(block, version);
    }

    fn commit(&mut self, plan: &AssignmentPlan) -> Vec<String> {
        plan.writes.iter().for_each(|write| self.write(write));
        plan.assignments.iter().map(|answer| answer.address.to_string()).collect()
    }

    fn release(&mut self, container: &str) {
        let release = AddressRelease { container: container.into(), ..AddressRelease::default() };
        for write in AddressPlanner::plan_releases(&self.view, &[release]).writes {
            self.write(&write);
        }
    }

    fn assign(&mut self, node: &str, nodes: usize, requests: &[AddressRequest]) -> Vec<String> {
        let plan =
            AddressPlanner { node, node_count: nodes, attempt: 0 }.plan_assignments(&self.view, requests);
        assert_eq!(plan.refusals, []);
        self.commit(&plan)
    }
}

fn pool(range: &str) -> Arc<AddressPool> {
    pool_of(json!({"type": "whereabouts", "range": range}))
}

fn pool_of(ipam: serde_json::Value) -> Arc<AddressPool> {
    WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap().pools.remove(0)
}

fn request(pool: &Arc<AddressPool>, pod: &str, interface: &str) -> AddressRequest {
    AddressRequest {
        pools: vec![pool.clone()],
        pod: PodRef { namespace: "ns".into(), name: pod.into(), uid: format!("uid-{pod}") },
        sticky: false,
        interface: interface.into(),
        ordinal: 0,
        container: format!("container-{pod}"),
    }
}

fn pods(pool: &Arc<AddressPool>, names: std::ops::Range<usize>) -> Vec<AddressRequest> {
    names.map(|name| request(pool, &format!("p{name}"), "net1")).collect()
}

// Case: ipam W01
#[test]
fn fresh_pool_starts_at_its_first_address() {
    let pool = pool("192.168.0.0/24");
    let plan = AddressPlanner { node: "a", node_count: 2, attempt: 0 }
        .plan_assignments(&BlockView::default(), &pods(&pool, 0..1));
    let [BlockWrite::Add(block)] = &plan.writes[..] else { panic!("{plan:?}") };
    assert_eq!(block.id.object_name(), "default-192.168.0.0");
    assert_eq!((block.holder.as_deref(), block.entries.len()), (Some("a"), 1));
    let entry = &block.entries[&1];
    assert_eq!((entry.pod.as_str(), entry.interface.as_str(), entry.node.as_str()), ("ns/p0", "net1", "a"));
    let expected = AddressAssignment {
        request: 0,
        address: "192.168.0.1/24".parse().unwrap(),
        gateway: None,
        write: Some(0),
    };
    assert_eq!(plan.assignments, [expected]);
}

// Case: ipam A21
#[test]
fn new_sandbox_gets_the_previous_address_unless_it_is_taken() {
    let pool = pool("192.168.0.0/24");
    let mut store = KnownBlocks::default();
    assert_eq!(
        store.assign("a", 1, &pods(&pool, 0..3)),
        ["192.168.0.1/24", "192.168.0.2/24", "192.168.0.3/24"]
    );
    for pod in [0, 1, 2] {
        let (block, _) = store.view.iter().next().unwrap();
        let (entry, space) = (block.entries[&(pod + 1)].clone(), block.space.clone());
        store.view.remember_released(&space, [192, 168, 0, pod + 1].into(), &entry);
        store.release(&entry.container);
    }
    let again =
        |pod: usize| AddressRequest { container: "again".into(), ..pods(&pool, pod..pod + 1).remove(0) };
    assert_eq!(store.assign("a", 1, &[again(1)]), ["192.168.0.2/24"]);
    // Another pod takes the address that pod 0 released, so pod 0 gets the next free one.
    assert_eq!(store.assign("a", 1, &pods(&pool, 7..8)), ["192.168.0.1/24"]);
    assert_eq!(store.assign("a", 1, &[again(0)]), ["192.168.0.3/24"]);
}

// Case: ipam W05
#[test]
fn two_interfaces_of_a_pod_get_two_addresses() {
    let pool = pool("192.168.0.0/24");
    let mut store = KnownBlocks::default();
    let both = [request(&pool, "p", "net1"), request(&pool, "p", "net2")];
    assert_eq!(store.assign("a", 1, &both), ["192.168.0.1/24", "192.168.0.2/24"]);
}

// Case: ipam W21, ipam W25
#[test]
fn overlapping_pools_of_one_space_never_assign_the_same_address() {
    let (narrow, wide) = (pool("10.0.0.0/24"), pool("10.0.0.0/16"));
    let mut store = KnownBlocks::default();
    let both = [request(&narrow, "p", "net1"), request(&wide, "p", "net2")];
    assert_eq!(store.assign("a", 1, &both), ["10.0.0.1/24", "10.0.0.2/16"]);
    assert_eq!(store.view.iter().count(), 1);
    let other = [request(&wide, "q", "net1")];
    assert_eq!(store.assign("a", 1, &other), ["10.0.0.3/16"]);
}

// Case: ipam W22, ipam W24
#[test]
fn pools_of_different_spaces_assign_addresses_independently() {
    let named =
        |name: &str| pool_of(json!({"type": "whereabouts", "range": "10.0.0.0/24", "network_name": name}));
    let own =
        pool_of(json!({"type": "whereabouts", "range": "10.0.0.0/28", "enable_overlapping_ranges": false}));
    let mut store = KnownBlocks::default();
    let all =
        [request(&named("a"), "p", "net1"), request(&named("b"), "q", "net1"), request(&own, "r", "net1")];
    assert_eq!(store.assign("a", 1, &all), ["10.0.0.1/24", "10.0.0.1/24", "10.0.0.1/28"]);
}

#[test]
fn repeated_request_of_an_owner_returns_its_address() {
    let pool = pool("192.168.0.0/24");
    let mut store = KnownBlocks::default();
    store.assign("a", 1, &pods(&pool, 0..3));
    let mut again = pods(&pool, 1..2);
    let planner = AddressPlanner { node: "a", node_count: 1, attempt: 0 };
    let plan = planner.plan_assignments(&store.view, &again);
    assert_eq!((plan.writes.len(), plan.assignments[0].write), (0, None));
    assert_eq!(plan.assignments[0].address.to_string(), "192.168.0.2/24");
    again[0].container = "next".into();
    let plan = planner.plan_assignments(&store.view, &again);
    assert_eq!((plan.writes.len(), plan.assignments[0].write), (1, Some(0)));
    assert_eq!(store.commit(&plan), ["192.168.0.2/24"]);
    // A late DEL of the previous sandbox must not release the address of the new one.
    let late = AddressRelease { container: "container-p1".into(), ..AddressRelease::default() };
    assert_eq!(AddressPlanner::plan_releases(&store.view, &[late]).writes, []);
}

#[test]
fn statefulset_pod_keeps_its_address_when_re_created_on_another_node() {
    let pool = pool("192.168.0.0/24");
    let mut store = KnownBlocks::default();
    let mut db = AddressRequest { sticky: true, ..request(&pool, "db-0", "net1") };
    store.assign("a", 1, &pods(&pool, 0..3));
    assert_eq!(store.assign("a", 2, std::slice::from_ref(&db)), ["192.168.0.4/24"]);
    db.pod.uid = "another".into();
    let former = std::mem::replace(&mut db.container, "another".into());
    // Node b must refuse the address while the old sandbox may still run on node a.
    let early = AddressPlanner { node: "b", node_count: 2, attempt: 0 }
        .plan_assignments(&store.view, std::slice::from_ref(&db));
    assert!(matches!(&early.refusals[0].error, Error::StillInUse { holder } if holder.node == "a"));
    assert!(early.writes.is_empty());
    store.release(&former);
    assert_ne!(
        store.assign("a", 2, &pods(&pool, 20..21)),
        ["192.168.0.4/24"],
        "the address is reserved for its pod"
    );
    assert_eq!(store.assign("b", 2, &[db]), ["192.168.0.4/24"]);
    let (block, _) = store.view.iter().next().unwrap();
    assert_eq!((block.entries[&4].node.as_str(), block.node.as_deref()), ("b", Some("a")));
}

// Case: ipam A25
#[test]
fn statefulset_pod_in_another_pool_releases_its_reserved_address() {
    let (old, new) = (pool("192.168.0.0/24"), pool("10.0.0.0/24"));
    let mut store = KnownBlocks::default();
    let db = |pool: &Arc<AddressPool>, interface: &str| AddressRequest {
        sticky: true,
        ..request(pool, "db-0", interface)
    };
    assert_eq!(
        store.assign("a", 1, &[db(&old, "net1"), db(&old, "net2")]),
        ["192.168.0.1/24", "192.168.0.2/24"]
    );
    store.release("container-db-0");
    let used = |store: &KnownBlocks| store.view.iter().map(|(block, _)| block.used()).sum::<u8>();
    assert_eq!(used(&store), 2);
    assert_eq!(
        store.assign("b", 1, &[db(&new, "net1"), db(&old, "net2")]),
        ["10.0.0.1/24", "192.168.0.2/24"],
        "the interface whose pool is the same keeps its address"
    );
    assert_eq!(used(&store), 2, "192.168.0.1 is free again");
}

#[test]
fn two_requests_of_one_owner_in_a_batch_get_one_address() {
    let pool = pool("192.168.0.0/24");
    let first = request(&pool, "p", "net1");
    let second = AddressRequest { container: "restarted".into(), ..first.clone() };
    let mut store = KnownBlocks::default();
    assert_eq!(store.assign("a", 1, &[first, second]), ["192.168.0.1/24", "192.168.0.1/24"]);
    assert_eq!(store.view.iter().map(|(block, _)| block.used()).sum::<u8>(), 1);
}

#[test]
fn address_outside_the_requested_pool_is_not_kept() {
    let mut store = KnownBlocks::default();
    store.assign("a", 1, &pods(&pool("10.0.0.0/28"), 0..1));
    let moved = pods(&pool("10.0.0.64/28"), 0..1);
    assert_eq!(store.assign("a", 1, &moved), ["10.0.0.65/28"]);
}

#[test]
fn batch_fills_block_by_block_with_one_write_each() {
    let pool = pool("10.0.0.0/23"); // 32 blocks
    let plan = AddressPlanner { node: "a", node_count: 2, attempt: 0 }
        .plan_assignments(&BlockView::default(), &pods(&pool, 0..64));
    // The first block contains the network address, so it has only 15 assignable addresses. The others have 16.
    let used: Vec<_> = plan.writes.iter().map(|write| write.entries().len()).collect();
    assert_eq!(used, [15, 16, 16, 16, 1]);
    let claims =
        |write: &BlockWrite| matches!(write, BlockWrite::Add(block) if block.holder.as_deref() == Some("a"));
    assert!(plan.writes.iter().all(claims));
}

#[test]
fn blocks_are_claimed_only_while_four_are_free_per_node() {
    let pool = pool("10.0.0.0/24"); // 16 blocks
    let mut store = KnownBlocks::default();
    let holders = |store: &KnownBlocks| store.view.iter().filter(|(block, _)| block.node.is_some()).count();
    store.assign("a", 2, &pods(&pool, 0..254));
    // With two nodes, a block is claimed only while at least eight blocks are free, so nine of the sixteen
    // blocks must be claimed. The others are shared.
    assert_eq!((holders(&store), store.view.iter().count()), (9, 16));
    let crowd = AddressPlanner { node: "a", node_count: 5, attempt: 0 }
        .plan_assignments(&BlockView::default(), &pods(&pool, 0..1));
    assert!(matches!(&crowd.writes[0], BlockWrite::Add(block) if block.holder.is_none()));
}

#[test]
fn free_addresses_in_blocks_of_other_nodes_are_used_last() {
    let pool = pool("10.0.0.0/27"); // two blocks, 30 addresses
    let mut store = KnownBlocks::default();
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), "10.0.0.0".parse().unwrap());
    store.put(IpBlock::new(id, Some("b".into())));
    let served = store.assign("a", 2, &pods(&pool, 0..20));
    assert_eq!(&served[..2], ["10.0.0.16/27", "10.0.0.17/27"]);
    assert_eq!(&served[15..17], ["10.0.0.1/27", "10.0.0.2/27"]);
    let holders: Vec<_> = store.view.iter().map(|(block, _)| block.node.clone()).collect();
    assert_eq!(holders, [Some("b".into()), None]);
}

#[test]
fn block_used_for_another_pool_of_the_batch_is_used() {
    let narrow = pool("10.0.0.15-10.0.0.16/24");
    let wide = pool_of(json!({"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.16"]}));
    let batch = [request(&narrow, "p", "net1"), request(&wide, "q", "net1"), request(&narrow, "r", "net1")];
    let served = KnownBlocks::default().assign("a", 1, &batch);
    assert_eq!(served, ["10.0.0.15/24", "10.0.0.1/24", "10.0.0.16/24"]);
}

// Case: ipam W09
#[test]
fn full_pool_reports_exhaustion_with_holders() {
    let pool = pool("192.168.1.5-192.168.1.12/24");
    let mut store = KnownBlocks::default();
    store.assign("a", 1, &pods(&pool, 0..8));
    let plan = AddressPlanner { node: "b", node_count: 2, attempt: 0 }
        .plan_assignments(&store.view, &pods(&pool, 8..9));
    assert_eq!((plan.writes.len(), plan.assignments.len()), (0, 0));
    let message = plan.refusals[0].error.to_string();
    assert!(
        message.starts_with("Could not allocate IP in range: all 8 addresses of 192.168.1.5-192.168.1.12/24")
    );
    assert!(message.contains("192.168.1.5 to ns/p0 on a") && message.ends_with("and 4 more"), "{message}");
}

#[test]
fn sandbox_gets_all_its_addresses_or_none() {
    let (roomy, tight) = (pool("10.1.0.0/24"), pool("10.2.0.1-10.2.0.1/24"));
    let pod = |name: &str| [request(&roomy, name, "net1"), request(&tight, name, "net2")];
    let batch: Vec<_> = pod("p").into_iter().chain(pod("q")).chain([request(&roomy, "r", "net1")]).collect();
    let plan = AddressPlanner { node: "a", node_count: 1, attempt: 0 }
        .plan_assignments(&BlockView::default(), &batch);
    let answered: Vec<_> = plan.assignments.iter().map(|a| (a.request, a.address.to_string())).collect();
    let expected = [(0, "10.1.0.1/24".into()), (1, "10.2.0.1/24".into()), (4, "10.1.0.2/24".into())];
    assert_eq!(answered, expected);
    let refused: Vec<_> = plan.refusals.iter().map(|refusal| refusal.request).collect();
    assert_eq!(refused, [2, 3]);
    assert_eq!(plan.refusals[0].error, plan.refusals[1].error);
}

#[test]
fn pools_are_used_in_order() {
    let pools = vec![pool("10.2.0.1-10.2.0.2/24"), pool("10.1.0.0/24")];
    let batch: Vec<_> = (0..3)
        .map(|name| AddressRequest {
            pools: pools.clone(),
            ..request(&pools[0], &format!("p{name}"), "net1")
        })
        .collect();
    assert_eq!(KnownBlocks::default().assign("a", 1, &batch), ["10.2.0.1/24", "10.2.0.2/24", "10.1.0.1/24"]);
}

#[test]
fn request_without_pod_uid_or_container_id_is_refused() {
    let pool = pool("10.0.0.0/24");
    let without_uid = AddressRequest {
        pod: PodRef { uid: String::new(), ..request(&pool, "p", "net1").pod },
        ..request(&pool, "p", "net1")
    };
    let without_container = AddressRequest { container: String::new(), ..request(&pool, "q", "net1") };
    let plan = AddressPlanner { node: "a", node_count: 1, attempt: 0 }
        .plan_assignments(&BlockView::default(), &[without_uid, without_container]);
    let missing: Vec<_> = plan.refusals.iter().map(|r| r.error.to_string()).collect();
    assert_eq!(
        missing,
        [
            "address request for interface net1 of pod ns/p has no pod UID",
            "address request for interface net1 of pod ns/q has no container id"
        ]
    );
}

#[test]
fn nodes_start_at_different_addresses_of_a_large_pool() {
    // 4096 blocks: each of 8 nodes claims one, and 8000 nodes share them.
    let pool = pool("10.0.0.0/16");
    let first = |node: &str, node_count, attempt| {
        let planner = AddressPlanner { node, node_count, attempt };
        let plan = planner.plan_assignments(&BlockView::default(), &pods(&pool, 0..1));
        let [BlockWrite::Add(block)] = &plan.writes[..] else { panic!("{plan:?}") };
        (block.id.first, block.holder.is_some(), plan.assignments[0].address.addr())
    };
    let nodes: Vec<_> = (0..8).map(|i| format!("node-{i}")).collect();
    let blocks: HashSet<_> = nodes.iter().map(|node| first(node, 8, 0).0).collect();
    assert_eq!(blocks.len(), 8);
    assert!(first("node-0", 8, 0).1 && !first("node-0", 8000, 0).1);
    assert_ne!(first("node-0", 8, 0), first("node-0", 8, 1), "another block after a conflict");
    let crowd: Vec<_> = (0..8000).map(|i| first(&format!("node-{i}"), 8000, 0).2).collect();
    let distinct: HashSet<_> = crowd.iter().collect();
    // 8000 random choices among 65534 addresses are about 7530 different ones.
    assert!(distinct.len() > 7400, "{}", distinct.len());
}

#[test]
fn small_pool_is_scattered_only_while_other_nodes_take_its_addresses() {
    let pool = pool("10.0.0.0/24");
    let planned = |view: &BlockView, node: &str| {
        let planner = AddressPlanner { node, node_count: 100, attempt: 1 };
        planner.plan_assignments(view, &pods(&pool, 0..1)).assignments[0].address.addr()
    };
    let mut view = BlockView::default();
    assert_eq!(planned(&view, "a").to_string(), "10.0.0.1");
    view.note_assignment(&pool, true);
    let choices: HashSet<_> = (0..8).map(|i| planned(&view, &format!("node-{i}"))).collect();
    assert!(choices.len() >= 7, "{choices:?}");
    for _ in 0..64 {
        view.note_assignment(&pool, false);
    }
    assert_eq!(planned(&view, "a").to_string(), "10.0.0.1");
}

#[test]
fn ipv6_64_pool_is_planned_without_enumerating_its_blocks() {
    let pool = pool("fd00::/64");
    let mut known = KnownBlocks::default();
    let served = known.assign("a", 1000, &pods(&pool, 0..2));
    assert_eq!(known.view.iter().count(), 1, "{served:?}");
}

// Case: ipam A30
#[test]
fn pool_assigns_its_5001st_address_and_its_last() {
    let pool = pool("10.40.0.0-10.40.19.200/16");
    let mut store = KnownBlocks::default();
    let counts = |store: &mut KnownBlocks, pods: std::ops::Range<usize>| {
        let plan = AddressPlanner { node: "a", node_count: 1, attempt: 0 }
            .plan_assignments(&store.view, &self::pods(&pool, pods));
        store.commit(&plan);
        (plan.assignments.len(), plan.refusals.len())
    };
    assert_eq!(counts(&mut store, 0..5000), (5000, 0));
    assert_eq!(counts(&mut store, 5000..5001), (1, 0));
    let all = pool.capacity() as usize;
    assert_eq!(counts(&mut store, 5001..all), (all - 5001, 0));
    assert_eq!(counts(&mut store, all..all + 1), (0, 1));
}
