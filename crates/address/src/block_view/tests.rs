use super::*;
use crate::IpSpace;
use serde_json::json;

#[test]
fn lagging_watch_does_not_overwrite_newer_block() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let block = |node: &str| IpBlock::new(id.clone(), Some(node.into()));
    let mut view = BlockView::new();
    let holder = |view: &BlockView| view.get(&id).and_then(|(block, _)| block.node.clone());
    view.observe(block("new"), ResourceVersion("10".into()));
    view.observe(block("old"), ResourceVersion("9".into()));
    assert_eq!(holder(&view).as_deref(), Some("new"));
    view.refresh(block("restored"), ResourceVersion("2".into()));
    assert_eq!(holder(&view).as_deref(), Some("restored"));
    view.observe(block("odd"), ResourceVersion("not-a-number".into()));
    assert_eq!(holder(&view).as_deref(), Some("odd"));
    view.remove(&id);
    assert!(view.is_empty());
}

#[test]
fn blocks_of_other_nodes_are_stored_compact() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let block = |node: &str| {
        let entry = json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": node});
        let mut block = IpBlock::new(id.clone(), Some(node.to_owned()));
        block.entries.insert(3, serde_json::from_value(entry).unwrap());
        block
    };
    let mut view = BlockView::for_node("own");
    view.observe(block("other"), ResourceVersion("1".into()));
    assert_eq!((view.full_blocks().count(), view.is_compact(&id)), (0, true));
    let holder = |view: &BlockView| view.get(&id).map(|(block, _)| block.entries[&3].node.clone());
    assert_eq!(holder(&view).as_deref(), Some("other"));
    assert_eq!(
        view.summaries().flat_map(BlockSummary::assigned_addresses).collect::<Vec<_>>(),
        [IpAddr::from([10, 0, 0, 3])]
    );
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
    assert!(view.is_empty());
}

#[test]
fn addresses_lost_by_a_restore_stay_unassignable_until_their_node_restores_them() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let block = |nodes: &[(u8, &str)]| {
        let mut block = IpBlock::new(id.clone(), None);
        for (offset, node) in nodes {
            let entry =
                json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": node});
            block.entries.insert(*offset, serde_json::from_value(entry).unwrap());
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
