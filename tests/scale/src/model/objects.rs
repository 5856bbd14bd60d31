//! The address blocks of a simulated API server, with the conflicts of a real one.

use ferroband_address::{AddressAllocation, IpBlock, IpBlockId, IpSpace, ResourceVersion};
use std::collections::BTreeMap;

/// The API server refused a write with status 409.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteConflict;

/// A block as the API server returns it.
pub type VersionedBlock = (IpBlock, ResourceVersion);

#[derive(Debug, Default)]
pub struct SimulatedObjects {
    blocks: BTreeMap<IpBlockId, (IpBlock, u64)>,
    /// Number of writes so far.
    version: u64,
}

impl SimulatedObjects {
    /// Creates a block (POST). Conflicts if it exists.
    pub fn create(&mut self, block: &IpBlock) -> Result<ResourceVersion, WriteConflict> {
        match self.blocks.contains_key(&block.id()) {
            true => Err(WriteConflict),
            false => Ok(self.store(block.clone()).1),
        }
    }

    /// Replaces a block (PUT with a resourceVersion). Conflicts if the block is at another version, or absent.
    pub fn replace(
        &mut self,
        block: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, WriteConflict> {
        match self.blocks.get(&block.id()) {
            Some((_, version)) if version.to_string() == expected.0 => Ok(self.store(block.clone()).1),
            _ => Err(WriteConflict),
        }
    }

    /// Adds entries to a block (server-side apply without force, by a field manager of its own). Creates the block if
    /// it is absent. Conflicts if an offset has another entry, or if another node holds a block that `holder` claims.
    pub fn apply(
        &mut self,
        id: &IpBlockId,
        entries: &BTreeMap<u8, AddressAllocation>,
        holder: Option<&str>,
    ) -> Result<VersionedBlock, WriteConflict> {
        let current = self.blocks.get(id).map(|(block, _)| block.clone());
        let mut block = current.unwrap_or_else(|| IpBlock::new(id.clone(), None));
        let is_taken = |(offset, entry)| {
            block.entries.get(offset).is_some_and(|current: &AddressAllocation| current != entry)
        };
        let is_held = block.node.is_some() && holder.is_some() && block.node.as_deref() != holder;
        if is_held || entries.iter().any(is_taken) {
            return Err(WriteConflict);
        }
        block.entries.extend(entries.iter().map(|(offset, entry)| (*offset, entry.clone())));
        block.node = block.node.or_else(|| holder.map(str::to_owned));
        Ok(self.store(block))
    }

    pub fn get(&self, id: &IpBlockId) -> Option<VersionedBlock> {
        self.blocks.get(id).map(|(block, version)| (block.clone(), ResourceVersion(version.to_string())))
    }

    /// Returns the blocks of a space, as a consistent list does.
    pub fn list(&self, space: &IpSpace) -> Vec<VersionedBlock> {
        let of_space = self.blocks.iter().filter(|(id, _)| id.space == *space);
        of_space.map(|(_, (block, version))| (block.clone(), ResourceVersion(version.to_string()))).collect()
    }

    /// Returns all blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &IpBlock> {
        self.blocks.values().map(|(block, _)| block)
    }

    fn store(&mut self, block: IpBlock) -> VersionedBlock {
        self.version += 1;
        self.blocks.insert(block.id(), (block.clone(), self.version));
        (block, ResourceVersion(self.version.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pod: &str) -> AddressAllocation {
        AddressAllocation { pod: pod.into(), container: pod.into(), ..AddressAllocation::default() }
    }

    fn id() -> IpBlockId {
        IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into()).0
    }

    #[test]
    fn apply_conflicts_only_with_another_entry_or_holder() {
        let mut objects = SimulatedObjects::default();
        let (first, second) = (BTreeMap::from([(1, entry("a"))]), BTreeMap::from([(2, entry("b"))]));
        objects.apply(&id(), &first, None).unwrap();
        let (block, _) = objects.apply(&id(), &second, Some("n1")).unwrap();
        assert_eq!((block.used(), block.node.as_deref()), (2, Some("n1")));
        assert!(objects.apply(&id(), &first, None).is_ok(), "the same entry again");
        assert_eq!(objects.apply(&id(), &BTreeMap::from([(1, entry("c"))]), None), Err(WriteConflict));
        assert_eq!(objects.apply(&id(), &BTreeMap::from([(3, entry("c"))]), Some("n2")), Err(WriteConflict));
        assert!(objects.apply(&id(), &BTreeMap::from([(3, entry("c"))]), None).is_ok());
    }

    #[test]
    fn replace_requires_the_current_version() {
        let mut objects = SimulatedObjects::default();
        let block = IpBlock::new(id(), None);
        let version = objects.create(&block).unwrap();
        assert_eq!(objects.create(&block), Err(WriteConflict));
        let newer = objects.replace(&block, &version).unwrap();
        assert_eq!(objects.replace(&block, &version), Err(WriteConflict));
        assert_eq!(objects.get(&id()).unwrap().1, newer);
        assert_eq!(objects.list(&IpSpace::default_space()).len(), 1);
    }
}
