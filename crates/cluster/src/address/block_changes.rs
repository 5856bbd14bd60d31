//! Changes of single entries by the leader, written block by block.

use super::{
    caches::{AddressCaches, CachedBlock},
    foreign_records::{RecordSlot, is_placeholder},
};
use crate::{
    ControllerContext, Error,
    object_writes::{collect_errors, unless_outdated},
};
use ferroband_address::{AddressAllocation, IpBlock, IpBlockId};
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::{addresses::block_to_object, api_call::with_timeout};
use kube::{Api, api::PostParams};
use std::collections::BTreeMap;

/// Blocks that are written at the same time.
const MAX_CONCURRENT_WRITES: usize = 16;

/// A change of the entry of one address. It has no effect if the entry is another one by now.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryChange {
    /// Adds the entry if the address has none.
    Insert(AddressAllocation),
    /// Replaces the placeholder of a foreign record. The sandbox ID identifies the record.
    Replace { container: String, entry: AddressAllocation },
    /// Removes the placeholder of a foreign record.
    Remove { container: String },
}

/// Changes of entries by block.
#[derive(Debug, Default)]
pub struct BlockChanges(BTreeMap<IpBlockId, BTreeMap<u8, EntryChange>>);

impl BlockChanges {
    pub fn add(&mut self, slot: &RecordSlot, change: EntryChange) {
        let (id, offset) = IpBlockId::containing(&slot.space, slot.address);
        self.0.entry(id).or_default().insert(offset, change);
    }

    /// Writes the blocks, several at a time. A block that was written concurrently is skipped, and the next pass tries
    /// again. A failure does not keep the other blocks from being written.
    pub async fn write(self, context: &ControllerContext, caches: &AddressCaches) -> Vec<Error> {
        let api: Api<AddressBlock> = Api::all(context.client.clone());
        let write = |(id, changes): (IpBlockId, BTreeMap<u8, EntryChange>)| {
            let (api, name) = (&api, id.object_name());
            let cached = caches.blocks.get("", &name);
            async move { write_block(api, id, cached.as_deref(), changes).await }
        };
        collect_errors(MAX_CONCURRENT_WRITES, self.0.into_iter().map(write)).await
    }
}

async fn write_block(
    api: &Api<AddressBlock>,
    id: IpBlockId,
    cached: Option<&CachedBlock>,
    changes: BTreeMap<u8, EntryChange>,
) -> Result<(), Error> {
    let name = id.object_name();
    let mut block = cached.map_or_else(|| IpBlock::new(id, None), |cached| cached.block.clone());
    if !apply(&mut block, changes) {
        return Ok(());
    }
    let object = block_to_object(&block, cached.map(|cached| &cached.version));
    let written = match cached {
        Some(_) => with_timeout(api.replace(&name, &PostParams::default(), &object)).await,
        None => with_timeout(api.create(&PostParams::default(), &object)).await,
    };
    unless_outdated(written, "write", format!("AddressBlock {name}")).map(drop)
}

/// Applies the changes that still have an effect. Returns whether there was one.
fn apply(block: &mut IpBlock, changes: BTreeMap<u8, EntryChange>) -> bool {
    let mut changed = false;
    for (offset, change) in changes {
        let current = block.entries.get(&offset);
        let is_placeholder_of = |container: &str| {
            current.is_some_and(|entry| is_placeholder(entry) && entry.container == container)
        };
        match change {
            EntryChange::Insert(entry) if current.is_none() => {
                block.entries.insert(offset, entry);
            }
            EntryChange::Replace { container, entry } if is_placeholder_of(&container) => {
                block.entries.insert(offset, entry);
            }
            EntryChange::Remove { container } if is_placeholder_of(&container) => {
                block.entries.remove(&offset);
            }
            _ => continue,
        }
        changed = true;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::IpSpace;

    #[test]
    fn a_change_never_touches_another_entry_than_the_one_it_is_about() {
        let slot =
            |last: u8| RecordSlot { space: IpSpace::default_space(), address: [10, 0, 0, last].into() };
        let entry = |container: &str, node: &str| AddressAllocation {
            container: container.into(),
            node: node.into(),
            ..AddressAllocation::default()
        };
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let mut block = IpBlock::new(id.clone(), None);
        for (offset, container, node) in [(1, "a", ""), (2, "b", "n"), (3, "c", "")] {
            block.entries.insert(offset, entry(container, node));
        }
        let mut changes = BlockChanges::default();
        changes.add(&slot(1), EntryChange::Insert(entry("x", "")));
        changes.add(&slot(2), EntryChange::Remove { container: "b".into() });
        changes.add(&slot(3), EntryChange::Remove { container: "other".into() });
        let before = block.clone();
        assert!(!apply(&mut block, changes.0[&id].clone()) && block == before);

        let mut changes = BlockChanges::default();
        changes.add(&slot(1), EntryChange::Replace { container: "a".into(), entry: entry("a", "n") });
        changes.add(&slot(3), EntryChange::Remove { container: "c".into() });
        changes.add(&slot(4), EntryChange::Insert(entry("d", "")));
        assert!(apply(&mut block, changes.0[&id].clone()));
        assert_eq!(block.entries.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(block.entries[&1].node, "n");
    }
}
