//! The API server's part of the address protocol, in memory: for tests and for models of large clusters.

use crate::batch::{BlockAddition, BlockWrite};
use crate::block::{IpBlock, IpBlockId};
use crate::block_index::IndexedBlock;
use crate::block_view::ResourceVersion;
use crate::ip_space::IpSpace;
use crate::labels::node_label;
use crate::node_allocator::{BlockCall, CallOutcome, PodName};
use crate::sticky::StickyRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks, indexes and pointers as the API server stores them.
#[derive(Clone, Debug, Default)]
pub struct InMemoryBlocks {
    blocks: BTreeMap<IpBlockId, StoredBlock>,
    sticky: BTreeMap<PodName, StickyRecord>,
    indexes: BTreeMap<IpSpace, Vec<IndexedBlock>>,
    version: u64,
}

#[derive(Clone, Debug)]
struct StoredBlock {
    block: IpBlock,
    version: u64,
    /// Labels of nodes.
    labels: BTreeSet<String>,
}

impl InMemoryBlocks {
    /// Executes a call of `node`.
    pub fn execute(&mut self, node: &str, call: &BlockCall) -> CallOutcome {
        match call {
            BlockCall::Write(write) => match self.write(write) {
                Some(written) => CallOutcome::Block(Some(written)),
                None => CallOutcome::Conflict,
            },
            BlockCall::Read(id) => CallOutcome::Block(self.read(id)),
            BlockCall::ListOwn => {
                let label = node_label(node);
                self.list(|stored| stored.labels.contains(&label))
            }
            BlockCall::ListSpace(scope) => self.list(|stored| scope.covers(&stored.block.id())),
            BlockCall::ReadIndex(space) => {
                CallOutcome::Index(self.indexes.get(space).cloned().unwrap_or_default())
            }
            BlockCall::ReadSticky(pod) => {
                CallOutcome::Sticky(self.sticky.get(pod).cloned().unwrap_or_default())
            }
            BlockCall::WriteSticky(pod, record) => self.write_sticky(pod, record),
        }
    }

    /// Executes a write. Returns `None` on a conflict.
    pub fn write(&mut self, write: &BlockWrite) -> Option<(IpBlock, ResourceVersion)> {
        let id = write.id();
        let stored = self.blocks.get(&id);
        let (block, mut labels) = match write {
            BlockWrite::Add(addition) => {
                let labels = stored.map(|stored| stored.labels.clone()).unwrap_or_default();
                (add(addition, stored.map(|stored| &stored.block))?, labels)
            }
            BlockWrite::Replace { block, expected } => {
                stored.filter(|stored| stored.version.to_string() == expected.0)?;
                (block.clone(), BTreeSet::new())
            }
        };
        labels.extend(block.entries.values().map(|entry| node_label(&entry.node)));
        labels.extend(block.node.as_deref().map(node_label));
        self.version += 1;
        let version = self.version;
        self.blocks.insert(id, StoredBlock { block: block.clone(), version, labels });
        Some((block, ResourceVersion(version.to_string())))
    }

    fn write_sticky(&mut self, pod: &PodName, record: &StickyRecord) -> CallOutcome {
        if self.sticky.get(pod).and_then(|stored| stored.version.clone()) != record.version {
            return CallOutcome::Conflict;
        }
        self.version += 1;
        let version = Some(ResourceVersion(self.version.to_string()));
        let record = StickyRecord { version, ..record.clone() };
        self.sticky.insert(pod.clone(), record.clone());
        CallOutcome::Sticky(record)
    }

    pub fn read(&self, id: &IpBlockId) -> Option<(IpBlock, ResourceVersion)> {
        self.blocks.get(id).map(StoredBlock::content)
    }

    fn list(&self, matches: impl Fn(&StoredBlock) -> bool) -> CallOutcome {
        let blocks =
            self.blocks.values().filter(|stored| matches(stored)).map(StoredBlock::content).collect();
        CallOutcome::Blocks { blocks, unreadable: Vec::new() }
    }

    pub fn blocks(&self) -> impl Iterator<Item = &IpBlock> {
        self.blocks.values().map(|stored| &stored.block)
    }

    /// Writes the current index of a space, as the leader does.
    pub fn publish_index(&mut self, space: &IpSpace) {
        let of_space = self.blocks().filter(|block| block.space == *space);
        let index = of_space.map(IndexedBlock::of).collect();
        self.indexes.insert(space.clone(), index);
    }

    /// Deletes a block if it has no entries, as the leader does.
    pub fn delete_empty(&mut self, id: &IpBlockId) {
        if self.blocks.get(id).is_some_and(|stored| stored.block.entries.is_empty()) {
            self.blocks.remove(id);
        }
    }
}

impl StoredBlock {
    fn content(&self) -> (IpBlock, ResourceVersion) {
        (self.block.clone(), ResourceVersion(self.version.to_string()))
    }
}

/// Returns the block after the addition, or `None` on a conflict, as the API server's server-side apply does.
fn add(addition: &BlockAddition, present: Option<&IpBlock>) -> Option<IpBlock> {
    if addition.exists && present.is_none() {
        return None;
    }
    let mut block = present.cloned().unwrap_or_else(|| IpBlock::new(addition.id.clone(), None));
    if addition.holder.is_some() {
        if block.node.is_some() && block.node != addition.holder {
            return None;
        }
        block.node.clone_from(&addition.holder);
    }
    for (offset, entry) in &addition.entries {
        if block.entries.get(offset).is_some_and(|present| present != entry) {
            return None;
        }
        block.entries.insert(*offset, entry.clone());
    }
    Some(block)
}
