use super::*;
use crate::GuidRange;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn share(first: u64, last: u64) -> ClusterSlice {
    ClusterSlice::new(GuidRange::new(Guid::new(first), Guid::new(last)).unwrap(), "cluster")
}

fn vf(node: &str, device: u64) -> GuidOwner {
    GuidOwner { node: node.into(), device: format!("0000:3b:00.{device}") }
}

fn take(
    share: &ClusterSlice,
    granules: &mut BTreeMap<u64, GuidBlockClaims>,
    claim: &GuidOwner,
) -> Option<Guid> {
    match choose_guid(share, granules, claim)? {
        Ok(guid) => Some(guid),
        Err(draft) => {
            granules.insert(draft.first, draft.block);
            Some(draft.guid)
        }
    }
}

fn give_back(granules: &mut BTreeMap<u64, GuidBlockClaims>, guid: Guid) {
    let first = block_start(guid);
    granules.get_mut(&first).unwrap().claims.remove(&((guid.value() - first) as u8));
}

#[test]
fn a_function_keeps_its_guid() {
    let (share, mut granules) = (ClusterSlice::new(GuidRange::DEFAULT, "c"), BTreeMap::new());
    let first = take(&share, &mut granules, &vf("n1", 1)).unwrap();
    let second = take(&share, &mut granules, &vf("n1", 2)).unwrap();
    assert_ne!(first, second);
    assert_eq!(take(&share, &mut granules, &vf("n1", 1)), Some(first));
    assert_eq!(granules.len(), 1);
    take(&share, &mut granules, &vf("n2", 1)).unwrap();
    assert_eq!(granules.len(), 2, "another node, another granule");
}

#[test]
fn case_30_one_given_back_is_not_the_next_to_go() {
    let (share, mut granules) = (share(0x200, 0x2ff), BTreeMap::new());
    let first = take(&share, &mut granules, &vf("n", 0)).unwrap();
    give_back(&mut granules, first);
    // An emptied granule has nothing to go by; while anything is claimed, the order is that of upstream.
    let kept = take(&share, &mut granules, &vf("n", 1)).unwrap();
    let gone = take(&share, &mut granules, &vf("n", 2)).unwrap();
    let third = take(&share, &mut granules, &vf("n", 3)).unwrap();
    give_back(&mut granules, gone);
    let mut seen = BTreeSet::from([kept, third]);
    for device in 4..257 {
        let guid = take(&share, &mut granules, &vf("n", device)).unwrap();
        assert_ne!(guid, gone, "{} others are free", 257 - device);
        assert!(seen.insert(guid));
    }
    assert_eq!(take(&share, &mut granules, &vf("n", 999)), Some(gone));
    assert_eq!(take(&share, &mut granules, &vf("n", 1000)), None);
}

#[test]
fn case_31_and_33_a_guid_asked_for() {
    let (share, mut granules) = (share(0x1000, 0x1fff), BTreeMap::new());
    let wanted = crate::parse_guid("00:00:00:00:00:00:1A:BC").unwrap();
    let Some(Err(draft)) = claim_guid(&share, &granules, wanted, &vf("n1", 1)) else { panic!() };
    granules.insert(draft.first, draft.block);
    assert_eq!(claim_guid(&share, &granules, wanted, &vf("n1", 1)), Some(Ok(wanted)));
    assert_eq!(claim_guid(&share, &granules, wanted, &vf("n1", 2)), None, "another's is never taken");
    assert_eq!(claim_guid(&share, &granules, Guid::new(0x2000), &vf("n1", 3)), None, "out of range");
    assert_eq!(owned_guid(&granules, &vf("n1", 1)), Some(wanted));
    let granule = &granules[&block_start(wanted)];
    assert_eq!(release_guid(granule, wanted, &vf("n1", 2)), None, "only its owner gives it back");
    let left = release_guid(granule, wanted, &vf("n1", 1)).unwrap();
    assert_eq!(release_guid(&left, wanted, &vf("n1", 1)), None, "twice is once");
    granules.insert(block_start(wanted), left);
    assert!(
        matches!(claim_guid(&share, &granules, wanted, &vf("n2", 1)), Some(Err(_))),
        "then it is anybody's"
    );
}

#[test]
fn case_35_what_is_somebody_elses_is_not_handed_out() {
    let (share, mut granules) = (share(0x200, 0x203), BTreeMap::new());
    let foreign = GuidOwner { node: String::new(), device: "in 0x0007 at the subnet manager".into() };
    for guid in [0x200, 0x202] {
        let Some(Err(draft)) = claim_guid(&share, &granules, Guid::new(guid), &foreign) else { panic!() };
        granules.insert(draft.first, draft.block);
    }
    let got: BTreeSet<_> = (0..3).filter_map(|vf_| take(&share, &mut granules, &vf("n", vf_))).collect();
    assert_eq!(got, BTreeSet::from([Guid::new(0x201), Guid::new(0x203)]));
}

proptest! {
    /// Whatever is taken and given back, in any range: no GUID has two owners, none is outside, none lost.
    #[test]
    fn one_owner_each(
        first in 1_u64..5000, size in 0_u64..600,
        steps in proptest::collection::vec((0_u64..4, 0_u64..60, any::<bool>()), 0..120),
    ) {
        let share = share(first, first + size);
        let mut granules = BTreeMap::new();
        let mut owners: BTreeMap<(u64, u64), Guid> = BTreeMap::new();
        for (node, device, back) in steps {
            if back {
                if let Some(guid) = owners.remove(&(node, device)) {
                    give_back(&mut granules, guid);
                }
                continue;
            }
            match take(&share, &mut granules, &vf(&format!("n{node}"), device)) {
                Some(guid) => {
                    prop_assert!(share.slice.contains(guid));
                    let before = owners.insert((node, device), guid);
                    prop_assert!(before.is_none_or(|before| before == guid));
                    let distinct: BTreeSet<_> = owners.values().collect();
                    prop_assert_eq!(distinct.len(), owners.len());
                }
                None => prop_assert_eq!(owners.len() as u64, share.slice.size()),
            }
        }
    }
}
