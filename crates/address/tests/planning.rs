//! Tests of plans and of the faults that users see, through the public interface.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_address::whereabouts::WhereaboutsConfig;
use ferroband_address::{
    AddressAllocation, AddressHolder, AddressPlanner, AddressPool, AddressRequest, BlockView, Error, IpBlock,
    IpBlockId, IpFamily, IpSpace, ResourceVersion,
};
use ferroband_model::{FaultCode, PodRef};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

fn pool(range: &str) -> Arc<AddressPool> {
    let ipam = json!({"type": "whereabouts", "range": range});
    WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap().pools.remove(0)
}

fn request(pools: &[&Arc<AddressPool>]) -> AddressRequest {
    AddressRequest {
        pools: pools.iter().map(|pool| Arc::clone(pool)).collect(),
        pod: PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() },
        sticky: false,
        interface: "net1".into(),
        ordinal: 0,
        container: "c".into(),
    }
}

/// A view in which the pod of [`request`] has these addresses.
fn view_with(addresses: &[[u8; 4]]) -> BlockView {
    let entry = AddressAllocation {
        pod: "ns/p".into(),
        uid: "u".into(),
        interface: "net1".into(),
        container: "c".into(),
        node: "n".into(),
        ..AddressAllocation::default()
    };
    let mut view = BlockView::default();
    for address in addresses {
        let (id, offset) = IpBlockId::containing(&IpSpace::default_space(), IpAddr::from(*address));
        let cached = view.get(&id).map(|(block, _)| block.clone());
        let mut block = cached.unwrap_or_else(|| IpBlock::new(id, None));
        block.entries.insert(offset, entry.clone());
        view.observe(block, ResourceVersion("1".into()));
    }
    view
}

fn assign(view: &BlockView, request: AddressRequest) -> Result<String, Error> {
    let planner = AddressPlanner { node: "n", node_count: 1, attempt: 0 };
    let mut plan = planner.plan_assignments(view, &[request]);
    match plan.refusals.pop() {
        Some(refusal) => Err(refusal.error),
        None => Ok(plan.assignments[0].address.to_string()),
    }
}

#[test]
fn owner_with_several_addresses_keeps_the_one_of_its_preferred_pool() {
    let (first, second) = (pool("10.0.0.0/24"), pool("10.0.1.0/24"));
    let view = view_with(&[[10, 0, 0, 7], [10, 0, 1, 3]]);
    // The pools are searched in the order of a hash map, which differs from run to run.
    for _ in 0..40 {
        assert_eq!(assign(&view, request(&[&first, &second])).unwrap(), "10.0.0.7/24");
        assert_eq!(assign(&view, request(&[&second, &first])).unwrap(), "10.0.1.3/24");
    }
}

#[test]
fn owner_with_several_addresses_in_a_pool_keeps_the_lowest() {
    let view = view_with(&[[10, 0, 0, 7], [10, 0, 0, 9], [10, 0, 0, 40]]);
    assert_eq!(assign(&view, request(&[&pool("10.0.0.0/24")])).unwrap(), "10.0.0.7/24");
}

#[test]
fn only_the_reserved_address_of_the_same_replica_is_released_with_a_change_of_pool() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let mut block = IpBlock::new(id, None);
    let entries = [(1, "ns/db-0", ""), (2, "ns/db-1", ""), (3, "ns/db-2", "c2"), (4, "ns/db-0", "c0")];
    for (offset, pod, container) in entries {
        let entry = AddressAllocation {
            pod: pod.into(),
            uid: "old".into(),
            sticky: true,
            interface: "net1".into(),
            container: container.into(),
            node: "n".into(),
            ..AddressAllocation::default()
        };
        block.entries.insert(offset, entry);
    }
    let mut view = BlockView::default();
    view.observe(block, ResourceVersion("1".into()));
    let pod = PodRef { namespace: "ns".into(), name: "db-0".into(), uid: "new".into() };
    let request = AddressRequest { pod, sticky: true, ..request(&[&pool("10.0.1.0/24")]) };
    let planner = AddressPlanner { node: "n", node_count: 1, attempt: 0 };
    let plan = planner.plan_assignments(&view, &[request]);
    let offsets = |first: [u8; 4]| {
        let write = plan.writes.iter().find(|write| write.id().first == IpAddr::from(first));
        write.map(|write| write.entries().keys().copied().collect::<Vec<_>>())
    };
    assert_eq!(offsets([10, 0, 0, 0]), Some(vec![2, 3, 4]), "a sandbox still uses offset 4");
    assert_eq!(offsets([10, 0, 1, 0]), Some(vec![1]));
}

#[test]
fn faults_have_the_code_that_runtimes_and_users_act_on() {
    let text = || "x".to_owned();
    let holder = AddressHolder { address: [10, 0, 0, 1].into(), pod: "ns/db-0".into(), node: "n".into() };
    let exhausted = {
        let mut other = request(&[&pool("10.0.0.0/30")]);
        other.pod.uid = "another".into();
        assign(&view_with(&[[10, 0, 0, 1], [10, 0, 0, 2]]), other).unwrap_err()
    };
    let missing = assign(&BlockView::default(), AddressRequest { container: String::new(), ..request(&[]) });
    let no_eligible = Error::NoEligiblePool {
        interface: text(),
        family: IpFamily::V4,
        requested: vec![text()],
        reasons: vec![text()],
    };
    for (error, code, remedy) in [
        (exhausted, FaultCode::PoolExhausted, "widen the range"),
        (missing.unwrap_err(), FaultCode::BadCall, "K8S_POD_UID"),
        (Error::NoUsableAddress { pool: text() }, FaultCode::InvalidConfig, "/30"),
        (
            Error::InvalidAnnotation { key: text(), cause: text() },
            FaultCode::InvalidAnnotation,
            "correct the annotation",
        ),
        (
            Error::DuplicatePool { interface: text(), pool: text() },
            FaultCode::InvalidAnnotation,
            "correct the annotation",
        ),
        (Error::StillInUse { holder }, FaultCode::AddressHeld, "retried automatically"),
        (Error::NoPool { interface: text() }, FaultCode::NoPool, "name a SpiderIPPool"),
        (no_eligible, FaultCode::NoPool, "eligible"),
        (
            Error::InvalidPool { pool: text(), field: text(), cause: text() },
            FaultCode::InvalidConfig,
            "correct the SpiderIPPool",
        ),
        (
            Error::WrongType { field: text(), expected: "a list", found: text() },
            FaultCode::Undecodable,
            "correct the field",
        ),
        (Error::NoIpam, FaultCode::InvalidConfig, "correct the network's ipam object"),
    ] {
        let fault = error.fault("network a/b");
        assert_eq!((fault.code, fault.what.as_str()), (code, "network a/b"), "{fault}");
        assert!(fault.remedy.contains(remedy), "{fault}");
        assert_eq!(fault.cause, error.to_string());
    }
}
