//! Property tests of the planner. Several nodes with stale views plan, write, conflict, retry and crash in any order,
//! against an API server that implements only compare-and-swap.
//!
//! Invariants at any time: each address has one owner, each address is in its pool, and no pod loses an address that
//! was reported to it. At the end a pool of N addresses has assigned exactly N.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod api_server;
mod cluster;

use cluster::{InterleavingCluster, InterleavingStep};
use ferroband_address::whereabouts::WhereaboutsConfig;
use ferroband_address::{AddressPool, AddressRelease, IpSpace};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

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
        pool_case(ranges(json!([{"range": "fd00::/120"}])), &[("default", "fd00::1", "fd00::fe")]),
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

fn any_step() -> impl Strategy<Value = InterleavingStep> {
    let node = || 0usize..4;
    let pod = || 0usize..48;
    prop_oneof![
        6 => (node(), prop::collection::vec(pod(), 1..60)).prop_map(|(node, pods)| InterleavingStep::Plan { node, pods }),
        6 => (node(), 0usize..4).prop_map(|(node, writes)| InterleavingStep::Write { node, writes }),
        3 => node().prop_map(|node| InterleavingStep::Finish { node }),
        2 => node().prop_map(|node| InterleavingStep::Watch { node }),
        1 => node().prop_map(|node| InterleavingStep::Crash { node }),
        4 => pod().prop_map(|pod| InterleavingStep::Delete { pod }),
        1 => (node(), pod()).prop_map(|(node, pod)| InterleavingStep::LateDelete { node, pod }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_address_is_assigned_twice_or_lost(
        case in pool_cases(),
        nodes in 1usize..=4,
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut cluster = InterleavingCluster::new(nodes, case.pools, case.offered);
        for step in steps {
            cluster.apply(step);
            cluster.check_invariants();
        }
        cluster.finish_all();
        cluster.check_invariants();
    }

    /// All addresses of a pool are assigned, and no more, whatever the interleaving.
    #[test]
    fn pool_of_n_addresses_assigns_exactly_n(
        case in pool_cases(),
        nodes in 1usize..=4,
        steps in prop::collection::vec(any_step(), 0..30),
        order in prop::collection::vec((0usize..4, 1usize..40), 1..200),
    ) {
        let pool = case.pools[0].clone();
        let mut cluster = InterleavingCluster::new(nodes, vec![pool.clone()], case.offered);
        for step in steps {
            cluster.apply(step);
        }
        cluster.finish_all();
        let capacity = usize::try_from(pool.capacity()).unwrap();
        let mut next = 1000;
        for (node, size) in order.into_iter().cycle() {
            let missing = capacity - cluster.assigned_in(&pool);
            if missing == 0 {
                break;
            }
            let pods = (next..next + size.min(missing)).collect();
            next += size;
            cluster.apply(InterleavingStep::Plan { node, pods });
            cluster.apply(InterleavingStep::Finish { node });
            cluster.check_invariants();
        }
        prop_assert_eq!(cluster.assigned_in(&pool), capacity);
        prop_assert!(cluster.is_refused_on_every_node(next));
        // After one sandbox releases its address, one more pod must get an address.
        let released = cluster.any_sandbox(0);
        if let Some((node, container)) = released {
            cluster.release(node, &AddressRelease { container, ..AddressRelease::default() });
            cluster.apply(InterleavingStep::Plan { node: 0, pods: vec![next] });
            cluster.apply(InterleavingStep::Finish { node: 0 });
            prop_assert_eq!(cluster.assigned_in(&pool), capacity);
        }
        cluster.check_invariants();
    }
}
