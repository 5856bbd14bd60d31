use super::*;
use crate::IpSpace;

/// An address of pod ns/p on `node`.
fn entry(node: &str) -> AddressAllocation {
    AddressAllocation {
        pod: "ns/p".into(),
        uid: "u".into(),
        interface: "net1".into(),
        container: "c".into(),
        node: node.into(),
        ..AddressAllocation::default()
    }
}

/// A block with its holder, and the nodes of its allocations by offset.
fn block_of(first: u8, holder: Option<&str>, nodes: &[(u8, &str)]) -> IpBlock {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, first].into());
    let mut block = IpBlock::new(id, holder.map(str::to_owned));
    for (offset, node) in nodes {
        block.entries.insert(*offset, entry(node));
    }
    block
}

fn version() -> ResourceVersion {
    ResourceVersion("1".into())
}

#[test]
fn blocks_that_the_node_does_not_use_become_summaries() {
    let mut view = BlockView::default();
    let cases = [
        (block_of(0, Some("own"), &[(1, "other")]), true),
        (block_of(16, Some("other"), &[(1, "other"), (2, "own")]), true),
        (block_of(32, Some("other"), &[(1, "other")]), false),
        (block_of(48, None, &[]), false),
    ];
    for (block, _) in &cases {
        view.observe(block.clone(), version());
    }
    view.summarize_others("own");
    for (block, full) in &cases {
        let id = block.id();
        assert_eq!(view.get(&id).is_some(), *full, "{id:?}");
        let summary = view.summary(&id).unwrap();
        assert_eq!(summary.assigned_offsets, block.assigned_offsets());
        assert_eq!(summary.node.is_some(), block.node.is_some());
    }
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 32].into());
    assert_eq!(view.hinted_holder(&id).unwrap().node, "other");
}

#[test]
fn index_replaces_summaries_and_no_block_that_is_known_in_full() {
    let space = IpSpace::default_space();
    let mut view = BlockView::default();
    view.observe(block_of(0, None, &[(1, "own")]), version());
    view.replace_index(&space, &["10.0.0.32 16 -".parse().unwrap()]);
    let index = ["10.0.0.0 9 h", "10.0.0.16 16 h", "10.0.0.48 3 -", "10.0.0.65 1 -"];
    view.replace_index(&space, &index.map(|line| line.parse().unwrap()));
    let summary = |first: u8| {
        let (id, _) = IpBlockId::containing(&space, [10, 0, 0, first].into());
        view.summary(&id).map(|block| (block.assigned_offsets, block.used, block.node.is_some()))
    };
    assert_eq!(summary(0), Some((2, 1, false)), "known in full");
    assert_eq!(summary(16), Some((u16::MAX, 16, true)));
    assert_eq!(summary(32), None, "not in the new index");
    assert_eq!(summary(48), Some((0, 3, false)), "which addresses are assigned is unknown");
    assert_eq!(summary(64), None, "not the first address of a block");
    assert!(
        view.is_assigned(&space, [10, 0, 0, 1].into()) && !view.is_assigned(&space, [10, 0, 0, 2].into())
    );
    assert!(!view.is_assigned(&space, [10, 0, 0, 17].into()), "an index proves nothing");
}

#[test]
fn list_of_a_space_replaces_everything_that_was_known_about_it() {
    let (space, rail) = (IpSpace::default_space(), IpSpace::network("rail"));
    let mut view = BlockView::default();
    view.observe(block_of(0, None, &[(1, "own")]), version());
    view.observe(block_of(16, None, &[(1, "own")]), version());
    let (id, _) = IpBlockId::containing(&rail, [10, 0, 0, 0].into());
    view.observe(IpBlock::new(id.clone(), None), version());
    view.mark_unreadable("default-10.0.0.32".into());
    let listed = [block_of(16, None, &[(2, "own")]), block_of(32, None, &[(3, "other")])];
    let scope = BlockScope { space, regions: vec![[10, 0, 0, 0].into()] };
    let far = IpBlockId::containing(&scope.space, [10, 1, 0, 0].into()).0;
    view.observe(IpBlock::new(far.clone(), None), version());
    view.replace_scope(&scope, "own", listed.map(|block| (block, version())).into(), Vec::new());
    assert!(view.get(&id).is_some(), "another space");
    assert!(view.get(&far).is_some(), "another region");
    view.remove(&far);
    let known: Vec<_> =
        view.iter().map(|(block, _)| (block.object_name(), block.assigned_offsets())).collect();
    assert_eq!(known, [("default-10.0.0.16".to_owned(), 4), ("rail-10.0.0.0".to_owned(), 0)]);
    let other = listed_id(32);
    assert!(view.get(&other).is_none() && view.summary(&other).is_some() && !view.is_unreadable(&other));
}

fn listed_id(first: u8) -> IpBlockId {
    block_of(first, None, &[]).id()
}

#[test]
fn last_128_released_addresses_are_remembered() {
    let entry = |pod: u8| AddressAllocation { uid: pod.to_string(), ..entry("n") };
    let (space, mut view) = (IpSpace::default_space(), BlockView::default());
    let bounds = [([10, 0, 0, 0].into(), [10, 0, 0, 255].into())];
    let pool =
        AddressPool::new("pool", space.clone(), "10.0.0.0/24".parse().unwrap(), bounds, &[], None).unwrap();
    let address = |pod: u8| IpAddr::from([10, 0, 0, pod]);
    let mut release = |pod: u8| {
        view.remember_released(&space, address(pod), &entry(pod));
        [0, 1].map(|pod| view.last_released_by(&entry(pod).owner(address(pod)), &pool))
    };
    for pod in 0..127 {
        release(pod);
    }
    assert_eq!(release(127), [Some(address(0)), Some(address(1))], "128 addresses");
    assert_eq!(release(127), [Some(address(0)), Some(address(1))], "the same address again");
    assert_eq!(release(128), [None, Some(address(1))], "129 addresses");
}
