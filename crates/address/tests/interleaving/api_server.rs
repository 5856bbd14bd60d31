//! A minimal API server: named objects with compare-and-swap writes.

use ferroband_address::{BlockList, BlockView, BlockWrite, IpBlock, ResourceVersion};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct InMemoryApiServer {
    objects: BTreeMap<String, (IpBlock, u64)>,
    version: u64,
}

impl InMemoryApiServer {
    /// Executes a write; returns an error on a conflict.
    pub fn write(&mut self, write: &BlockWrite) -> Result<ResourceVersion, ()> {
        let name = write.block().object_name();
        let present = self.objects.get(&name).map(|(_, version)| version.to_string());
        let expected = match write {
            BlockWrite::Create(_) => None,
            BlockWrite::Replace { expected, .. } => Some(expected.0.clone()),
        };
        if present != expected {
            return Err(());
        }
        self.version += 1;
        self.objects.insert(name, (write.block().clone(), self.version));
        Ok(ResourceVersion(self.version.to_string()))
    }

    pub fn read(&self, name: &str) -> Option<(IpBlock, ResourceVersion)> {
        self.objects.get(name).map(|(block, version)| (block.clone(), ResourceVersion(version.to_string())))
    }

    /// Returns the view that a node has after a full list.
    pub fn list(&self, node: &str) -> BlockView {
        let (mut view, mut list) = (BlockView::for_node(node), BlockList::default());
        for (block, version) in self.objects.keys().filter_map(|name| self.read(name)) {
            view.add_to_list(&mut list, block, version);
        }
        view.replace_all(list, |_| false);
        view
    }

    pub fn blocks(&self) -> impl Iterator<Item = &IpBlock> {
        self.objects.values().map(|(block, _)| block)
    }
}
