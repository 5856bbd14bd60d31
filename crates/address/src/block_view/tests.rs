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

#[test]
fn lagging_watch_does_not_overwrite_newer_block() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let block = |node: &str| IpBlock::new(id.clone(), Some(node.into()));
    let mut view = BlockView::default();
    let holder = |view: &BlockView| view.get(&id).and_then(|(block, _)| block.node.clone());
    view.observe(block("new"), ResourceVersion("10".into()));
    view.observe(block("old"), ResourceVersion("9".into()));
    assert_eq!(holder(&view).as_deref(), Some("new"));
    view.refresh(block("restored"), ResourceVersion("2".into()));
    assert_eq!(holder(&view).as_deref(), Some("restored"));
    view.observe(block("odd"), ResourceVersion("not-a-number".into()));
    assert_eq!(holder(&view).as_deref(), Some("odd"));
    view.remove(&id);
    assert_eq!(view.iter().count(), 0);
}

#[test]
fn blocks_of_other_nodes_are_stored_compact() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let block = |node: &str| {
        let mut block = IpBlock::new(id.clone(), Some(node.to_owned()));
        block.entries.insert(3, entry(node));
        block
    };
    let mut view = BlockView::for_node("own");
    view.observe(block("other"), ResourceVersion("1".into()));
    assert_eq!((view.full_blocks().count(), view.is_compact(&id)), (0, true));
    let holder = |view: &BlockView| view.get(&id).map(|(block, _)| block.entries[&3].node.clone());
    assert_eq!(holder(&view).as_deref(), Some("other"));
    let assigned: Vec<_> = view.summary(&id).unwrap().assigned_addresses().collect();
    assert_eq!(assigned, [IpAddr::from([10, 0, 0, 3])]);
    // A listed block that has the version of the cached block must not replace the cached block.
    let mut list = BlockList::default();
    view.add_to_list(&mut list, block("ignored"), ResourceVersion("1".into()));
    assert!(!view.replace_all(list, |_| false));
    assert_eq!(holder(&view).as_deref(), Some("other"));
    // A block that was read in order to write it must be stored in full.
    view.refresh(block("other"), ResourceVersion("1".into()));
    assert_eq!(view.full_blocks().collect::<Vec<_>>(), [&block("other")]);
    let mut list = BlockList::default();
    view.add_to_list(&mut list, block("own"), ResourceVersion("2".into()));
    assert!(!view.replace_all(list, |_| false));
    assert_eq!(view.full_blocks().collect::<Vec<_>>(), [&block("own")]);
    assert!(
        view.replace_all(BlockList::default(), |_| false),
        "own allocations cannot disappear without a restore"
    );
    assert_eq!(view.iter().count(), 0);
}

#[test]
fn only_a_smaller_decimal_version_is_older() {
    let version = |text: &str| ResourceVersion(text.to_owned());
    assert!(version("9").is_older_than(&version("10")));
    for (own, other) in [("10", "10"), ("10", "9"), ("a", "b"), ("9", "b"), ("", "1")] {
        assert!(!version(own).is_older_than(&version(other)), "{own} {other}");
    }
}

/// A block at 10.0.0.`first` with the node that has claimed it, and the nodes of its allocations by offset.
fn block_of(first: u8, holder: Option<&str>, nodes: &[(u8, &str)], sticky: bool) -> IpBlock {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, first].into());
    let mut block = IpBlock::new(id, holder.map(str::to_owned));
    for (offset, node) in nodes {
        block.entries.insert(*offset, AddressAllocation { sticky, ..entry(node) });
    }
    block
}

#[test]
fn block_that_the_node_has_claimed_or_uses_is_stored_in_full() {
    let mut view = BlockView::for_node("own");
    for (block, compact) in [
        (block_of(0, Some("own"), &[(1, "other")], false), false),
        (block_of(16, Some("other"), &[(1, "other"), (2, "own")], false), false),
        (block_of(32, Some("other"), &[(1, "other")], false), true),
        (block_of(48, None, &[], false), false),
    ] {
        let id = block.id();
        assert!(!view.is_compact(&id), "not cached yet");
        view.observe(block, ResourceVersion("1".into()));
        assert_eq!(view.is_compact(&id), compact, "{id:?}");
    }
    assert_eq!((view.full_blocks().count(), view.iter().count()), (3, 4));
}

#[test]
fn compact_block_is_searched_only_for_sticky_addresses() {
    let mut view = BlockView::for_node("own");
    view.observe(block_of(0, None, &[(1, "own")], false), ResourceVersion("1".into()));
    view.observe(block_of(16, None, &[(1, "other")], false), ResourceVersion("1".into()));
    view.observe(block_of(32, None, &[(1, "other")], true), ResourceVersion("1".into()));
    let firsts =
        |sticky| view.full_or_sticky_blocks(sticky).map(|block| block.first.to_string()).collect::<Vec<_>>();
    assert_eq!(firsts(false), ["10.0.0.0"]);
    assert_eq!(firsts(true), ["10.0.0.0", "10.0.0.32"]);
}

#[test]
fn block_written_during_the_list_is_not_evidence_of_a_restore() {
    let own = block_of(0, None, &[(1, "own")], false);
    let id = own.id();
    let mut view = BlockView::for_node("own");
    view.observe(own.clone(), ResourceVersion("9".into()));
    let mut list = BlockList::default();
    view.add_to_list(&mut list, own.clone(), ResourceVersion("3".into()));
    assert!(!view.replace_all(list, |block| *block == id), "the list is older than the write");
    view.refresh(own, ResourceVersion("9".into()));
    assert!(!view.replace_all(BlockList::default(), |block| *block == id));
    assert_eq!(view.lost_offsets(&id), 0);
}

#[test]
fn address_released_before_a_restore_is_not_lost() {
    let (restored, newer) = (block_of(0, None, &[(1, "a")], false), block_of(16, None, &[(1, "a")], false));
    let mut view = BlockView::for_node("own");
    view.observe(restored.clone(), ResourceVersion("9".into()));
    view.observe(newer.clone(), ResourceVersion("2".into()));
    let mut list = BlockList::default();
    view.add_to_list(&mut list, block_of(0, None, &[], false), ResourceVersion("3".into()));
    view.add_to_list(&mut list, block_of(16, None, &[], false), ResourceVersion("4".into()));
    assert!(view.replace_all(list, |_| false));
    assert_eq!((view.lost_offsets(&restored.id()), view.lost_offsets(&newer.id())), (0b10, 0));
}

#[test]
fn lost_address_stays_lost_while_its_node_still_restores() {
    let id = block_of(0, None, &[], false).id();
    let mut view = BlockView::for_node("own");
    let before = [(1, "a"), (2, "a"), (3, "a"), (4, "b")];
    view.observe(block_of(0, None, &before, false), ResourceVersion("9".into()));
    let mut list = BlockList::default();
    view.add_to_list(&mut list, block_of(0, None, &[(1, "a")], false), ResourceVersion("3".into()));
    assert!(view.replace_all(list, |_| false));
    assert_eq!(view.lost_offsets(&id), 0b1_1100);
    // Another node writes. The old allocation of node a in the same block is no new one.
    view.observe(block_of(0, None, &[(1, "a"), (9, "c")], false), ResourceVersion("4".into()));
    assert_eq!(view.lost_offsets(&id), 0b1_1100);
    // Node a restores one of its allocations, and has another one left.
    view.observe(block_of(0, None, &[(1, "a"), (2, "a"), (9, "c")], false), ResourceVersion("5".into()));
    assert_eq!(view.lost_offsets(&id), 0b1_1000);
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

#[test]
fn addresses_lost_by_a_restore_stay_unassignable_until_their_node_restores_them() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let block = |nodes: &[(u8, &str)]| {
        let mut block = IpBlock::new(id.clone(), None);
        for (offset, node) in nodes {
            block.entries.insert(*offset, entry(node));
        }
        block
    };
    let mut view = BlockView::for_node("own");
    view.observe(block(&[(1, "a"), (2, "a"), (3, "b"), (4, "own"), (5, "own")]), ResourceVersion("9".into()));
    let mut list = BlockList::default();
    view.add_to_list(&mut list, block(&[(1, "a")]), ResourceVersion("3".into()));
    assert!(view.replace_all(list, |_| false), "version 3 follows version 9");
    assert_eq!(view.lost_offsets(&id), 0b11_1100);
    // The own node restores one lost address, then reports that it has no others. Neither may count as
    // lost then.
    view.clear_lost(&IpSpace::default_space(), id.address(4));
    assert_eq!(view.lost_offsets(&id), 0b10_1100);
    view.clear_lost_on_own_node();
    assert_eq!(view.lost_offsets(&id), 0b00_1100);
    // Node a writes its lost allocation again. The allocation must no longer count as lost.
    view.observe(block(&[(1, "a"), (2, "a")]), ResourceVersion("4".into()));
    assert_eq!(view.lost_offsets(&id), 0b00_1000);
    // Node b writes a new allocation. Its other address must no longer count as lost.
    view.observe(block(&[(1, "a"), (2, "a"), (9, "b")]), ResourceVersion("5".into()));
    assert_eq!(view.lost_offsets(&id), 0);
}

#[test]
fn late_deletion_does_not_remove_a_newer_block() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let mut view = BlockView::default();
    view.observe(IpBlock::new(id.clone(), None), ResourceVersion("12".into()));
    assert!(!view.remove_deleted(&id, &ResourceVersion("11".into())));
    assert!(view.get(&id).is_some(), "the block was created again after the deletion");
    assert!(view.remove_deleted(&id, &ResourceVersion("13".into())));
    assert_eq!(view.iter().count(), 0);
}
