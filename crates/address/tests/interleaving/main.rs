//! Property tests of the address protocol. Several nodes with partial and stale views plan, write, conflict, lose replies,
//! crash and are fenced in any order. The leader deletes empty blocks and writes an index that is old or missing.
//!
//! Invariants at any time: each address of a running pod is in one block entry with its sandbox, each entry is in its pool,
//! and each node finds its entries by its label. At the end a pool of N addresses has assigned exactly N.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod cluster;

use cluster::{Delivery, InterleavingCluster, InterleavingStep, STICKY_PODS};
use ferroband_address::whereabouts::WhereaboutsConfig;
use ferroband_address::{AddressPool, IpSpace};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A test case: its pools, and the ranges that they must offer, as (IP space, first address, last address).
#[derive(Clone, Debug)]
struct PoolCase {
    pools: Vec<Arc<AddressPool>>,
    offered: Vec<(IpSpace, IpAddr, IpAddr)>,
}

fn pool_case(ipam: Value, offered: &[(&str, &str, &str)]) -> PoolCase {
    let pools = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap().pools;
    let interval = |(space, low, high): &(&str, &str, &str)| {
        (IpSpace::from_text(space), low.parse().unwrap(), high.parse().unwrap())
    };
    PoolCase { pools, offered: offered.iter().map(interval).collect() }
}

/// Pools that cause conflicts: small, with gaps, across block boundaries, overlapping, or in separate spaces.
fn pool_cases() -> impl Strategy<Value = PoolCase> {
    let ranges = |ranges: Value| json!({"type": "whereabouts", "ipRanges": ranges});
    prop::sample::select(vec![
        pool_case(ranges(json!([{"range": "10.0.0.0/29"}])), &[("default", "10.0.0.1", "10.0.0.6")]),
        pool_case(
            ranges(json!([{"range": "172.91.0.100-172.91.0.120/16"}])),
            &[("default", "172.91.0.100", "172.91.0.120")],
        ),
        pool_case(
            ranges(
                json!([{"range": "10.0.0.0/26", "exclude": ["10.0.0.0/28", "10.0.0.17", "10.0.0.32/29"]}]),
            ),
            &[
                ("default", "10.0.0.16", "10.0.0.16"),
                ("default", "10.0.0.18", "10.0.0.31"),
                ("default", "10.0.0.40", "10.0.0.62"),
            ],
        ),
        pool_case(
            ranges(json!([{"range": "10.0.0.0/24"}, {"range": "10.0.0.8-10.0.0.40/25"}])),
            &[("default", "10.0.0.1", "10.0.0.254")],
        ),
        pool_case(
            ranges(json!([{"range": "10.0.0.0/28"}, {"range": "fd00::/124"}])),
            &[("default", "10.0.0.1", "10.0.0.14"), ("default", "fd00::1", "fd00::e")],
        ),
        pool_case(ranges(json!([{"range": "fd00::/118"}])), &[("default", "fd00::1", "fd00::3fe")]),
        pool_case(
            json!({"type": "whereabouts", "range": "10.0.0.0/28", "ipRanges": [{"range": "10.0.0.0/29"}],
                   "enable_overlapping_ranges": false}),
            &[("pool/10.0.0.0/28", "10.0.0.1", "10.0.0.14"), ("pool/10.0.0.0/29", "10.0.0.1", "10.0.0.6")],
        ),
        pool_case(
            json!({"type": "whereabouts", "range": "10.0.0.0/27", "network_name": "rail"}),
            &[("network/rail", "10.0.0.1", "10.0.0.30")],
        ),
    ])
}

fn any_delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![
        8 => Just(Delivery::Executed),
        1 => Just(Delivery::ReplyLost),
        1 => Just(Delivery::Dropped),
        1 => Just(Delivery::Delayed),
    ]
}

fn any_step() -> impl Strategy<Value = InterleavingStep> {
    let node = || 0usize..4;
    let pod = || prop_oneof![4 => 0usize..24, 1 => STICKY_PODS];
    let waits = prop::sample::select(vec![1, 100, 1_000, 6_000, 20_000, 70_000]);
    prop_oneof![
        6 => prop::collection::vec(pod(), 1..12).prop_map(InterleavingStep::Add),
        12 => node().prop_map(InterleavingStep::Plan),
        12 => (node(), prop::collection::vec(any_delivery(), 1..4))
            .prop_map(|(node, deliveries)| InterleavingStep::Deliver(node, deliveries)),
        4 => pod().prop_map(InterleavingStep::Delete),
        2 => Just(InterleavingStep::DeliverLate),
        1 => node().prop_map(InterleavingStep::Crash),
        1 => node().prop_map(InterleavingStep::Fence),
        1 => Just(InterleavingStep::DeleteEmpty),
        1 => Just(InterleavingStep::PublishIndex),
        1 => node().prop_map(InterleavingStep::Evidence),
        2 => waits.prop_map(|millis| InterleavingStep::Wait(Duration::from_millis(millis))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn address_is_assigned_exactly_when_it_is_in_one_entry(
        case in pool_cases(),
        nodes in 1usize..=4,
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut cluster = InterleavingCluster::new(nodes, case.pools, case.offered);
        for step in steps {
            cluster.apply(step);
            cluster.check_invariants();
        }
        cluster.clean_up();
        cluster.check_exact();
    }

    /// A StatefulSet pod has the same addresses on every node, after crashes and without an index.
    #[test]
    fn re_created_statefulset_pod_keeps_its_addresses(
        case in pool_cases(),
        nodes in 1usize..=4,
        moves in prop::collection::vec((any::<bool>(), any::<bool>()), 1..8),
    ) {
        let mut cluster = InterleavingCluster::new(nodes, case.pools, case.offered);
        let pod = STICKY_PODS.start;
        cluster.add(pod);
        cluster.settle();
        let addresses = cluster.addresses(pod);
        prop_assert!(!addresses.is_empty());
        for (crash, others) in moves {
            cluster.delete(pod);
            cluster.settle();
            if crash {
                (0..nodes).for_each(|node| cluster.apply(InterleavingStep::Crash(node)));
            }
            if others {
                (0..4).for_each(|other| cluster.add(other));
                cluster.settle();
            }
            cluster.add(pod);
            cluster.settle();
            prop_assert_eq!(cluster.addresses(pod), addresses.clone());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Nobody is refused while an address is free, and nobody gets one that is not, whatever happened before.
    #[test]
    fn pool_of_n_addresses_assigns_exactly_n(
        case in pool_cases(),
        nodes in 1usize..=4,
        steps in prop::collection::vec(any_step(), 0..30),
        batches in prop::collection::vec(1usize..200, 1..20),
    ) {
        let pool = case.pools[0].clone();
        let mut cluster = InterleavingCluster::new(nodes, vec![pool.clone()], case.offered);
        for step in steps {
            cluster.apply(step);
        }
        cluster.clean_up();
        let capacity = usize::try_from(pool.capacity()).unwrap();
        let mut next = 1000;
        for size in batches.into_iter().cycle() {
            let missing = capacity - cluster.assigned_in(&pool);
            if missing == 0 {
                break;
            }
            // All nodes ask at the same time.
            let pods: Vec<_> = (next..next + size.min(missing)).collect();
            next += size;
            pods.iter().for_each(|pod| cluster.add(*pod));
            cluster.settle();
            // A refusal is remembered for five seconds. The runtime tries again later.
            cluster.apply(InterleavingStep::Wait(Duration::from_secs(6)));
            pods.iter().for_each(|pod| cluster.add(*pod));
            cluster.settle();
            prop_assert!(pods.iter().all(|pod| cluster.is_running(*pod)), "refused while an address is free");
        }
        prop_assert_eq!(cluster.assigned_in(&pool), capacity);
        let refusals = cluster.exhausted;
        (next..next + nodes).for_each(|pod| cluster.add(pod));
        cluster.settle();
        prop_assert!((next..next + nodes).all(|pod| !cluster.is_running(pod)));
        prop_assert_eq!(cluster.exhausted, refusals + nodes);
        // After one sandbox releases its address, one more pod gets an address.
        if let Some(pod) = cluster.running().into_iter().find(|pod| !STICKY_PODS.contains(pod)) {
            cluster.delete(pod);
            cluster.settle();
            cluster.apply(InterleavingStep::Wait(Duration::from_secs(6)));
            cluster.add(next);
            cluster.settle();
            prop_assert!(cluster.is_running(next));
        }
    }
}
