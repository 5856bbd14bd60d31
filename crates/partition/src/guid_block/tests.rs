use super::*;
use crate::GuidRange;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn slice(first: u64, last: u64) -> ClusterSlice {
    ClusterSlice::new(GuidRange::new(Guid::new(first), Guid::new(last)).unwrap(), "cluster")
}

fn vf(node: &str, device: u64) -> GuidOwner {
    GuidOwner { node: node.into(), device: format!("0000:3b:00.{device}") }
}

fn allocate(
    slice: &ClusterSlice,
    blocks: &mut BTreeMap<u64, GuidBlockClaims>,
    owner: &GuidOwner,
) -> Option<Guid> {
    match choose_guid(slice, blocks, owner)? {
        Ok(guid) => Some(guid),
        Err(update) => {
            blocks.insert(update.first, update.block);
            Some(update.guid)
        }
    }
}

fn release(blocks: &mut BTreeMap<u64, GuidBlockClaims>, guid: Guid) {
    let first = block_start(guid);
    blocks.get_mut(&first).unwrap().claims.remove(&((guid.value() - first) as u8));
}

// Case: partitions 30
#[test]
fn vf_keeps_its_guid() {
    let (slice, mut blocks) = (ClusterSlice::new(GuidRange::DEFAULT, "c"), BTreeMap::new());
    let first = allocate(&slice, &mut blocks, &vf("n1", 1)).unwrap();
    let second = allocate(&slice, &mut blocks, &vf("n1", 2)).unwrap();
    assert_ne!(first, second);
    assert_eq!(allocate(&slice, &mut blocks, &vf("n1", 1)), Some(first));
    assert_eq!(blocks.len(), 1);
    allocate(&slice, &mut blocks, &vf("n2", 1)).unwrap();
    assert_eq!(blocks.len(), 2, "another node gets another block");
}

// Case: partitions 30
#[test]
fn released_guid_is_not_reused_immediately() {
    let (slice, mut blocks) = (slice(0x200, 0x2ff), BTreeMap::new());
    let first = allocate(&slice, &mut blocks, &vf("n", 0)).unwrap();
    release(&mut blocks, first);
    // An empty block assigns its first GUID again. While at least one GUID is claimed, the search starts
    // after the highest claimed GUID, as in ib-kubernetes, so a released GUID must be reused last.
    let first_kept = allocate(&slice, &mut blocks, &vf("n", 1)).unwrap();
    let released = allocate(&slice, &mut blocks, &vf("n", 2)).unwrap();
    let third = allocate(&slice, &mut blocks, &vf("n", 3)).unwrap();
    release(&mut blocks, released);
    let mut assigned = BTreeSet::from([first_kept, third]);
    for device in 4..257 {
        let guid = allocate(&slice, &mut blocks, &vf("n", device)).unwrap();
        assert_ne!(guid, released, "{} others are free", 257 - device);
        assert!(assigned.insert(guid));
    }
    assert_eq!(allocate(&slice, &mut blocks, &vf("n", 999)), Some(released));
    assert_eq!(allocate(&slice, &mut blocks, &vf("n", 1000)), None);
}

#[test]
fn block_contains_256_guids_from_a_multiple_of_256() {
    for (guid, first) in [(0x100, 0x100), (0x1ff, 0x100), (0x0292_57e5_0000_03ab, 0x0292_57e5_0000_0300)] {
        assert_eq!(block_start(Guid::new(guid)), first, "{guid:#x}");
    }
    assert_eq!(block_name(0x0292_57e5_0000_0300), "029257e500000300");
}

#[test]
fn claim_is_stored_at_the_offset_from_the_start_of_its_block() {
    for base in [0, 0x0200_0000_0000_0000, 0xfe00_0000_0000_0000] {
        let (slice, mut blocks) = (slice(base + 0x1000, base + 0x1fff), BTreeMap::new());
        let (guid, owner) = (Guid::new(base + 0x1abc), vf("n1", 1));
        let Some(Err(update)) = claim_guid(&slice, &blocks, guid, &owner) else { panic!("not free") };
        let claims = BTreeMap::from([(0xbc, owner.clone())]);
        let block = GuidBlockClaims { node: String::new(), claims };
        assert_eq!(update, GuidBlockUpdate { first: base + 0x1a00, block: block.clone(), guid });
        blocks.insert(update.first, update.block);
        assert_eq!(owned_guid(&blocks, &owner), Some(guid));
        assert_eq!(owned_guid(&blocks, &vf("n1", 2)), None);
        assert_eq!(release_guid(&block, guid, &owner), Some(GuidBlockClaims::default()));
        assert_eq!(release_guid(&block, Guid::new(base + 0x1abd), &owner), None);
    }
}

#[test]
fn search_starts_after_the_highest_claimed_guid() {
    let slice = slice(0x1000, 0x10ff);
    let claimed = |offsets: &[u8]| {
        let claims = offsets.iter().map(|offset| (*offset, vf("other", u64::from(*offset)))).collect();
        BTreeMap::from([(0x1000, GuidBlockClaims { node: "n".into(), claims })])
    };
    for (offsets, expected) in [
        (&[][..], 0x1000),
        (&[5], 0x1006),
        (&[3, 5], 0x1006),
        (&[254], 0x10ff),
        (&[255], 0x1000),
        (&[0, 1, 255], 0x1002),
    ] {
        let guid = allocate(&slice, &mut claimed(offsets), &vf("n", 1));
        assert_eq!(guid, Some(Guid::new(expected)), "{offsets:?}");
    }
}

#[test]
fn new_block_is_the_first_free_one_from_the_start_of_the_node() {
    // Sixteen blocks. The first and the last one are only partly in the range.
    let slice = slice(0x1080, 0x1f7f);
    let index = |guid: Guid| (guid.value() - 0x1000) / 256;
    let start = slice.search_start("n") / 256;
    let mut blocks = BTreeMap::new();
    for step in 0..16 {
        let owner = vf("n", step);
        let guid = allocate(&slice, &mut blocks, &owner).unwrap();
        assert_eq!(index(guid), (start + step) % 16, "step {step}");
        assert!(slice.guids.contains(guid), "{guid}");
        let first = block_start(guid);
        assert_eq!(guid.value(), first.max(0x1080), "the first usable GUID of the block");
        assert_eq!(blocks[&first].node, "n");
        // The next claim skips this block, as if another node had created it.
        blocks.get_mut(&first).unwrap().node = "other".into();
    }
    // All blocks exist, so a GUID of a block of another node is claimed.
    assert_eq!(allocate(&slice, &mut blocks, &vf("n", 16)), Some(Guid::new(0x1081)));
    assert_eq!(blocks.len(), 16);
}

// Case: partitions 31, partitions 33
#[test]
fn requested_guid_is_claimed_if_in_range_and_free() {
    let (slice, mut blocks) = (slice(0x1000, 0x1fff), BTreeMap::new());
    let requested = crate::parse_guid("00:00:00:00:00:00:1A:BC").unwrap();
    let Some(Err(update)) = claim_guid(&slice, &blocks, requested, &vf("n1", 1)) else { panic!() };
    blocks.insert(update.first, update.block);
    assert_eq!(claim_guid(&slice, &blocks, requested, &vf("n1", 1)), Some(Ok(requested)));
    assert_eq!(
        claim_guid(&slice, &blocks, requested, &vf("n1", 2)),
        None,
        "a GUID of another owner is never claimed"
    );
    assert_eq!(claim_guid(&slice, &blocks, Guid::new(0x2000), &vf("n1", 3)), None, "out of range");
    assert_eq!(owned_guid(&blocks, &vf("n1", 1)), Some(requested));
    let block = &blocks[&block_start(requested)];
    assert_eq!(release_guid(block, requested, &vf("n1", 2)), None, "only the owner releases it");
    let remaining = release_guid(block, requested, &vf("n1", 1)).unwrap();
    assert_eq!(release_guid(&remaining, requested, &vf("n1", 1)), None, "releasing twice has no effect");
    blocks.insert(block_start(requested), remaining);
    assert!(
        matches!(claim_guid(&slice, &blocks, requested, &vf("n2", 1)), Some(Err(_))),
        "after the release another owner can claim it"
    );
}

// Case: partitions 35
#[test]
fn guid_used_by_someone_else_is_not_assigned() {
    let (slice, mut blocks) = (slice(0x200, 0x203), BTreeMap::new());
    let foreign = GuidOwner { node: String::new(), device: "member of 0x0007 in the subnet manager".into() };
    for guid in [0x200, 0x202] {
        let Some(Err(update)) = claim_guid(&slice, &blocks, Guid::new(guid), &foreign) else { panic!() };
        blocks.insert(update.first, update.block);
    }
    let assigned: BTreeSet<_> =
        (0..3).filter_map(|device| allocate(&slice, &mut blocks, &vf("n", device))).collect();
    assert_eq!(assigned, BTreeSet::from([Guid::new(0x201), Guid::new(0x203)]));
}

proptest! {
    /// After any sequence of claims and releases, no GUID has two owners, is out of range or is lost.
    #[test]
    fn every_guid_has_at_most_one_owner(
        first in 1_u64..5000, size in 0_u64..600,
        steps in proptest::collection::vec((0_u64..4, 0_u64..60, any::<bool>()), 0..120),
    ) {
        let slice = slice(first, first + size);
        let mut blocks = BTreeMap::new();
        let mut owners: BTreeMap<(u64, u64), Guid> = BTreeMap::new();
        for (node, device, release_it) in steps {
            if release_it {
                if let Some(guid) = owners.remove(&(node, device)) {
                    release(&mut blocks, guid);
                }
                continue;
            }
            match allocate(&slice, &mut blocks, &vf(&format!("n{node}"), device)) {
                Some(guid) => {
                    prop_assert!(slice.guids.contains(guid));
                    let before = owners.insert((node, device), guid);
                    prop_assert!(before.is_none_or(|before| before == guid));
                    let distinct: BTreeSet<_> = owners.values().collect();
                    prop_assert_eq!(distinct.len(), owners.len());
                }
                None => prop_assert_eq!(owners.len() as u64, slice.guids.size()),
            }
        }
    }
}
