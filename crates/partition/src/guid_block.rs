//! GUID allocation in blocks of 256 consecutive GUIDs. Each block is stored as one GuidBlock object.
//!
//! An object is named after the first GUID of its block, so of two concurrent writers the API server accepts
//! only one. A node with hundreds of virtual functions writes few objects. A claim never moves to another
//! owner: its owner releases it, or it is freed after the owner's node is gone.

use crate::ClusterSlice;
use ferroband_model::Guid;
use std::collections::BTreeMap;

/// Number of GUIDs in a block. The first GUID of a block is a multiple of this number.
pub const GUID_BLOCK_SIZE: u64 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidOwner {
    /// Node of the function that uses the GUID. Empty if the GUID is in use outside of this cluster and must
    /// not be assigned.
    pub node: String,
    /// PCI address of the function. For a GUID in use outside of this cluster, a description of where it was
    /// seen.
    pub device: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuidBlockClaims {
    /// Node that created the block and assigns GUIDs from it first. Empty if the block was created for a
    /// requested GUID.
    pub node: String,
    /// Owners of the claimed GUIDs, by offset from the first GUID of the block.
    pub claims: BTreeMap<u8, GuidOwner>,
}

/// A GuidBlock object to create or replace, in order to store a new claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidBlockUpdate {
    /// First GUID of the block, which determines the name of the object.
    pub first: u64,
    /// Content of the block, including the new claim.
    pub block: GuidBlockClaims,
    /// The GUID that is newly claimed in `block`.
    pub guid: Guid,
}

/// First GUID of the block that contains `guid`.
pub fn block_start(guid: Guid) -> u64 {
    guid.value() & !(GUID_BLOCK_SIZE - 1)
}

/// Name of the GuidBlock object: the first GUID as 16 hexadecimal digits.
pub fn block_name(first: u64) -> String {
    format!("{first:016x}")
}

/// The GUID that `owner` has claimed, if any.
pub fn owned_guid(blocks: &BTreeMap<u64, GuidBlockClaims>, owner: &GuidOwner) -> Option<Guid> {
    blocks.iter().find_map(|(first, block)| {
        let (offset, _) = block.claims.iter().find(|(_, current)| *current == owner)?;
        Some(Guid::new(first + u64::from(*offset)))
    })
}

/// Selects a GUID for `owner`. `Ok` contains the GUID that the owner already has. `Err` contains an update
/// that must be stored before its GUID is used. `None` means that all GUIDs are claimed.
///
/// Prefers the node's own blocks, then a new block, then the blocks of other nodes.
pub fn choose_guid(
    slice: &ClusterSlice,
    blocks: &BTreeMap<u64, GuidBlockClaims>,
    owner: &GuidOwner,
) -> Option<Result<Guid, GuidBlockUpdate>> {
    if let Some(guid) = owned_guid(blocks, owner) {
        return Some(Ok(guid));
    }
    let own = blocks.iter().filter(|(_, block)| block.node == owner.node);
    if let Some(update) = own.filter_map(|(first, block)| claim_next_free(slice, *first, block, owner)).next()
    {
        return Some(Err(update));
    }
    claim_in_new_block(slice, blocks, owner)
        .or_else(|| blocks.iter().find_map(|(first, block)| claim_next_free(slice, *first, block, owner)))
        .map(Err)
}

/// Claims a specific GUID. `Ok` and `Err` have the same meaning as in [`choose_guid`]. `None` means that the
/// GUID has another owner or is out of range.
pub fn claim_guid(
    slice: &ClusterSlice,
    blocks: &BTreeMap<u64, GuidBlockClaims>,
    guid: Guid,
    owner: &GuidOwner,
) -> Option<Result<Guid, GuidBlockUpdate>> {
    if !slice.range.contains(guid) {
        return None;
    }
    let first = block_start(guid);
    let offset = (guid.value() - first) as u8;
    let block = blocks.get(&first);
    match block.and_then(|block| block.claims.get(&offset)) {
        Some(current) if current == owner => Some(Ok(guid)),
        Some(_) => None,
        None => {
            let mut block = block.cloned().unwrap_or_default();
            block.claims.insert(offset, owner.clone());
            Some(Err(GuidBlockUpdate { first, block, guid }))
        }
    }
}

/// Returns the block without the claim of `guid`. Returns `None` if the GUID is not claimed or has another
/// owner.
pub fn release_guid(block: &GuidBlockClaims, guid: Guid, owner: &GuidOwner) -> Option<GuidBlockClaims> {
    let offset = (guid.value() - block_start(guid)) as u8;
    block.claims.get(&offset).filter(|current| *current == owner)?;
    let mut remaining = block.clone();
    remaining.claims.remove(&offset);
    Some(remaining)
}

/// Claims the next free GUID of a block. The search starts after the highest claimed GUID, so that a GUID
/// just released is not reused immediately.
fn claim_next_free(
    slice: &ClusterSlice,
    first: u64,
    block: &GuidBlockClaims,
    owner: &GuidOwner,
) -> Option<GuidBlockUpdate> {
    let after = block.claims.keys().next_back().map_or(0, |last| u64::from(*last) + 1);
    let offsets = (after..GUID_BLOCK_SIZE).chain(0..after.min(GUID_BLOCK_SIZE));
    let usable = |offset: &u64| {
        slice.guids.contains(Guid::new(first + offset)) && !block.claims.contains_key(&(*offset as u8))
    };
    let offset = offsets.into_iter().find(usable)?;
    let mut block = block.clone();
    block.claims.insert(offset as u8, owner.clone());
    Some(GuidBlockUpdate { first, block, guid: Guid::new(first + offset) })
}

/// Claims a GUID in a block that does not exist yet. The search starts at the node's own offset.
fn claim_in_new_block(
    slice: &ClusterSlice,
    blocks: &BTreeMap<u64, GuidBlockClaims>,
    owner: &GuidOwner,
) -> Option<GuidBlockUpdate> {
    let lowest = block_start(slice.guids.first) / GUID_BLOCK_SIZE;
    let count = block_start(slice.guids.last) / GUID_BLOCK_SIZE - lowest + 1;
    let start = slice.search_start(&owner.node) / GUID_BLOCK_SIZE;
    // There is one more candidate than existing blocks, so at least one candidate is a block that does not
    // exist yet.
    let tries = count.min(blocks.len() as u64 + 1);
    let first = (0..tries)
        .map(|step| (lowest + (start + step) % count) * GUID_BLOCK_SIZE)
        .find(|first| !blocks.contains_key(first))?;
    let block = GuidBlockClaims { node: owner.node.clone(), claims: BTreeMap::new() };
    claim_next_free(slice, first, &block, owner)
}

#[cfg(test)]
mod tests;
