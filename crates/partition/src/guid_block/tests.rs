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
