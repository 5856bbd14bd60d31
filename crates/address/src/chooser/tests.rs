use super::*;
use crate::block::{AddressAllocation, IpBlock};
use crate::block_view::{BlockView, ResourceVersion};
use crate::{IpRange, IpSpace};

fn pool(range: &str) -> AddressPool {
    let range = IpRange::parse("range", range, None, None, &mut Vec::new()).unwrap();
    let bounds = [(range.first, range.last)];
    AddressPool::new("pool", IpSpace::default_space(), range.subnet, bounds, &[], None).unwrap()
}

fn entry() -> AddressAllocation {
    AddressAllocation {
        pod: "ns/p".into(),
        uid: "u".into(),
        interface: "net1".into(),
        container: "c".into(),
        node: "n".into(),
        ..AddressAllocation::default()
    }
}

/// A view with the blocks 10.0.0.0, 10.0.0.16 and so on. Each has a holder and one assigned address.
fn view(holders: &[&str]) -> BlockView {
    let mut view = BlockView::default();
    for (position, holder) in (0_u8..).zip(holders) {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 16 * position].into());
        let mut block = IpBlock::new(id, Some((*holder).to_owned()));
        block.entries.insert(1, entry());
        view.observe(block, ResourceVersion("1".into()));
    }
    view
}

/// The block and the claim of each address that the node takes next.
fn take(
    pool: &AddressPool,
    view: &BlockView,
    count: usize,
    node_count: usize,
    attempt: u32,
) -> Vec<(String, bool)> {
    let mut draft = BlockDraft::new(view, "own");
    let mut chooser = AddressChooser::new(pool, &draft, "own", node_count, attempt);
    let mut taken = Vec::new();
    while taken.len() < count {
        let Some((id, offset, claim)) = chooser.next_free(&draft) else { break };
        draft.set(&id, offset, Some(entry()), claim);
        taken.push((id.address(offset).to_string(), claim.is_some()));
    }
    taken
}

fn addresses(taken: Vec<(String, bool)>) -> Vec<String> {
    taken.into_iter().map(|(address, _)| address).collect()
}

#[test]
fn node_stops_claiming_when_the_pool_is_no_longer_ample() {
    // Four free blocks are just enough for one node. The first block offers one address only.
    let pool = pool("10.0.0.15-10.0.0.63/24");
    let claims = |node_count| take(&pool, &BlockView::default(), 3, node_count, 0);
    let expected = [("10.0.0.15", true), ("10.0.0.16", false), ("10.0.0.17", false)];
    assert_eq!(claims(1), expected.map(|(address, claimed)| (address.to_owned(), claimed)));
    assert!(claims(2).iter().all(|(_, claimed)| !claimed), "not enough for two nodes");
}

#[test]
fn own_blocks_come_first_and_in_ascending_order_after_any_conflict() {
    let pool = pool("10.0.0.0/26");
    let view = view(&["other", "own", "own", "own"]);
    for attempt in 0..6 {
        let first = addresses(take(&pool, &view, 45, 1, attempt));
        assert_eq!((&*first[0], &*first[15], &*first[30]), ("10.0.0.16", "10.0.0.32", "10.0.0.48"));
        assert_eq!(first[44], "10.0.0.2", "the block of another node is the last resort");
    }
}

#[test]
fn blocks_of_other_nodes_are_taken_in_order_until_a_conflict() {
    let (pool, mut view) = (pool("10.0.0.0/26"), view(&["a", "b", "c", "d"]));
    assert_eq!(addresses(take(&pool, &view, 1, 1, 0)), ["10.0.0.2"]);
    view.note_assignment(&pool, true);
    let starts: std::collections::BTreeSet<_> =
        (1..20).flat_map(|attempt| addresses(take(&pool, &view, 1, 1, attempt))).collect();
    assert!(starts.len() > 1, "after conflicts, other blocks are tried: {starts:?}");
}

#[test]
fn exhausted_pool_ends_the_search_after_any_conflict() {
    let pool = pool("10.0.0.0-10.0.0.1/24");
    for attempt in 0..3 {
        assert_eq!(addresses(take(&pool, &view(&["own"]), 9, 1, attempt)), [""; 0]);
        assert_eq!(addresses(take(&pool, &view(&["other"]), 9, 1, attempt)), [""; 0]);
    }
}

#[test]
fn empty_block_without_holder_is_claimed() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let mut view = BlockView::default();
    view.observe(IpBlock::new(id, None), ResourceVersion("1".into()));
    let taken = take(&pool("10.0.0.0/26"), &view, 1, 1, 0);
    assert_eq!(taken, [("10.0.0.1".to_owned(), true)]);
}

#[test]
fn search_that_starts_in_the_middle_reaches_every_address() {
    let pool = pool("10.0.0.0/26");
    let mut view = BlockView::default();
    view.note_assignment(&pool, true);
    for attempt in 0..20 {
        let mut taken = addresses(take(&pool, &view, 100, 9, attempt));
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 62, "{taken:?}");
    }
}

#[test]
fn block_that_the_node_uses_comes_before_unknown_blocks() {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 32].into());
    let mut block = IpBlock::new(id, None);
    block.entries.insert(0, AddressAllocation { node: "own".into(), ..entry() });
    block.entries.insert(1, AddressAllocation { node: "other".into(), ..entry() });
    let mut view = BlockView::default();
    view.observe(block, ResourceVersion("1".into()));
    assert_eq!(addresses(take(&pool("10.0.0.0/26"), &view, 1, 9, 0)), ["10.0.0.34"]);
}
