//! GUIDs are claimed in granules of 256 neighbours, one object of the API server each.
//!
//! The object's name is its first GUID, so the API server decides between two who want the same one, and a node
//! with hundreds of virtual functions writes a handful of objects. A claim never moves to another owner:
//! it is given back by its owner, or freed after the owner's node is gone for good.

use crate::ClusterSlice;
use ferroband_model::Guid;
use std::collections::BTreeMap;

/// GUIDs in one granule.
pub const GUID_BLOCK_SIZE: u64 = 256;

/// Who has a GUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidOwner {
    /// The node; empty for a GUID that is somebody else's on the fabric and not to be handed out.
    pub node: String,
    /// The function on that node, by PCI address; for what is not ours, where it was seen.
    pub device: String,
}

/// The claims among 256 neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuidBlockClaims {
    /// The node that took the granule ahead of need.
    pub node: String,
    /// Claims by their distance from the first.
    pub claims: BTreeMap<u8, GuidOwner>,
}

/// A claim to be written: one granule, to be created or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidBlockUpdate {
    /// The granule's first GUID, used or not.
    pub first: u64,
    /// What it will hold.
    pub block: GuidBlockClaims,
    /// The GUID that is claimed.
    pub guid: Guid,
}

/// The first GUID of the granule that a GUID is in.
pub fn block_start(guid: Guid) -> u64 {
    guid.value() & !(GUID_BLOCK_SIZE - 1)
}

/// The name of a granule's object.
pub fn block_name(first: u64) -> String {
    format!("{first:016x}")
}

/// The GUID that a function of a node has, if it has one.
pub fn owned_guid(granules: &BTreeMap<u64, GuidBlockClaims>, claim: &GuidOwner) -> Option<Guid> {
    granules.iter().find_map(|(first, granule)| {
        let (offset, _) = granule.claims.iter().find(|(_, held)| *held == claim)?;
        Some(Guid::new(first + u64::from(*offset)))
    })
}

/// A GUID for a function: the one it has (`Ok`), or one to be written down first. `None` when all are taken.
///
/// Looks first where the node has granules, then for a granule that nobody has, then anywhere.
pub fn choose_guid(
    share: &ClusterSlice,
    granules: &BTreeMap<u64, GuidBlockClaims>,
    claim: &GuidOwner,
) -> Option<Result<Guid, GuidBlockUpdate>> {
    if let Some(guid) = owned_guid(granules, claim) {
        return Some(Ok(guid));
    }
    let own = granules.iter().filter(|(_, granule)| granule.node == claim.node);
    if let Some(draft) =
        own.filter_map(|(first, granule)| claim_next_free(share, *first, granule, claim)).next()
    {
        return Some(Err(draft));
    }
    claim_in_new_block(share, granules, claim)
        .or_else(|| {
            granules.iter().find_map(|(first, granule)| claim_next_free(share, *first, granule, claim))
        })
        .map(Err)
}

/// Claims one GUID by name. `None` when it is another's.
pub fn claim_guid(
    share: &ClusterSlice,
    granules: &BTreeMap<u64, GuidBlockClaims>,
    guid: Guid,
    claim: &GuidOwner,
) -> Option<Result<Guid, GuidBlockUpdate>> {
    if !share.range.contains(guid) {
        return None;
    }
    let first = block_start(guid);
    let offset = (guid.value() - first) as u8;
    let granule = granules.get(&first);
    match granule.and_then(|granule| granule.claims.get(&offset)) {
        Some(held) if held == claim => Some(Ok(guid)),
        Some(_) => None,
        None => {
            let mut granule = granule.cloned().unwrap_or_default();
            granule.claims.insert(offset, claim.clone());
            Some(Err(GuidBlockUpdate { first, block: granule, guid }))
        }
    }
}

/// A granule without a claim that is given back. `None` when it is not there, or another's.
pub fn release_guid(granule: &GuidBlockClaims, guid: Guid, claim: &GuidOwner) -> Option<GuidBlockClaims> {
    let offset = (guid.value() - block_start(guid)) as u8;
    granule.claims.get(&offset).filter(|held| *held == claim)?;
    let mut left = granule.clone();
    left.claims.remove(&offset);
    Some(left)
}

/// The next free GUID of a granule: after the last claimed one while there are any, so that one just given
/// back is not the next to go.
fn claim_next_free(
    share: &ClusterSlice,
    first: u64,
    granule: &GuidBlockClaims,
    claim: &GuidOwner,
) -> Option<GuidBlockUpdate> {
    let after = granule.claims.keys().next_back().map_or(0, |last| u64::from(*last) + 1);
    let offsets = (after..GUID_BLOCK_SIZE).chain(0..after.min(GUID_BLOCK_SIZE));
    let usable = |offset: &u64| {
        share.slice.contains(Guid::new(first + offset)) && !granule.claims.contains_key(&(*offset as u8))
    };
    let offset = offsets.into_iter().find(usable)?;
    let mut granule = granule.clone();
    granule.claims.insert(offset as u8, claim.clone());
    Some(GuidBlockUpdate { first, block: granule, guid: Guid::new(first + offset) })
}

/// A granule that does not exist yet, looked for from the node's own start.
fn claim_in_new_block(
    share: &ClusterSlice,
    granules: &BTreeMap<u64, GuidBlockClaims>,
    claim: &GuidOwner,
) -> Option<GuidBlockUpdate> {
    let lowest = block_start(share.slice.first) / GUID_BLOCK_SIZE;
    let count = block_start(share.slice.last) / GUID_BLOCK_SIZE - lowest + 1;
    let start = share.search_start(&claim.node) / GUID_BLOCK_SIZE;
    // Among one more than there are granules, one must be missing.
    let tries = count.min(granules.len() as u64 + 1);
    let first = (0..tries)
        .map(|step| (lowest + (start + step) % count) * GUID_BLOCK_SIZE)
        .find(|first| !granules.contains_key(first))?;
    let granule = GuidBlockClaims { node: claim.node.clone(), claims: BTreeMap::new() };
    claim_next_free(share, first, &granule, claim)
}

#[cfg(test)]
mod tests;
