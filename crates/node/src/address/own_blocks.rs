//! The allocator of this node, shared by the batch writer and the evidence scan.

use super::allocator::AllocatorTicket;
use ferroband_address::{AddressAllocation, IpSpace, NodeAllocator};
use parking_lot::Mutex;
use std::net::IpAddr;
use tokio::sync::{Notify, watch};

/// What this node knows about address blocks. It knows its own blocks in full, and of others what it needed to read.
#[derive(Debug)]
pub struct OwnBlocks {
    allocator: Mutex<NodeAllocator<AllocatorTicket>>,
    synced: watch::Sender<bool>,
    /// Wakes the batch writer when the blocks must be listed again.
    relist: Notify,
}

impl OwnBlocks {
    pub fn new(node: &str) -> Self {
        let allocator = Mutex::new(NodeAllocator::new(node));
        Self { allocator, synced: watch::Sender::new(false), relist: Notify::new() }
    }

    /// Calls `change` with the allocator while it is locked.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut NodeAllocator<AllocatorTicket>) -> R) -> R {
        let mut allocator = self.allocator.lock();
        let result = change(&mut allocator);
        let synced = allocator.is_synced();
        drop(allocator);
        self.synced.send_if_modified(|known| std::mem::replace(known, synced) != synced);
        result
    }

    /// Waits until the blocks of this node are listed. Before that, existing addresses of a pod cannot be found.
    pub async fn wait_synced(&self) {
        // `wait_for` cannot fail, because `self` owns the sender.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Lists the blocks of this node again, because others may have changed its entries. Nothing else is written before.
    pub async fn relist(&self) {
        self.with(NodeAllocator::relist);
        self.relist.notify_one();
        self.wait_synced().await;
    }

    pub(super) async fn relist_requested(&self) {
        self.relist.notified().await;
    }

    /// Returns the allocations of this node, with their addresses.
    pub fn own_allocations(&self) -> Vec<(IpSpace, IpAddr, AddressAllocation)> {
        let allocator = self.allocator.lock();
        let blocks = allocator.view().iter().map(|(block, _)| block);
        let entries = blocks.flat_map(|block| {
            let entries = block.entries.iter().filter(|(_, entry)| entry.node == allocator.node());
            entries.map(|(offset, entry)| (block.space.clone(), block.address(*offset), entry.clone()))
        });
        entries.collect()
    }

    /// Whether the address is known to have an allocation in the IP space. The same address may be in use in several
    /// spaces.
    pub fn is_assigned(&self, space: &IpSpace, address: IpAddr) -> bool {
        self.allocator.lock().view().is_assigned(space, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::{BlockCall, CallOutcome, IpBlock, IpBlockId, ResourceVersion};
    use std::time::Duration;

    #[test]
    fn address_that_is_assigned_in_another_space_is_missing() {
        let (id, offset) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 5].into());
        let mut block = IpBlock::new(id, None);
        let entry = AddressAllocation { node: "n2".into(), ..AddressAllocation::default() };
        block.entries.insert(offset, entry);
        let blocks = OwnBlocks::new("n1");
        assert!(!blocks.is_synced());
        blocks.with(|allocator| {
            assert_eq!(allocator.next_calls(Duration::ZERO, &|_| None), [BlockCall::ListOwn]);
            let blocks = vec![(block, ResourceVersion("1".into()))];
            allocator.finish_calls(vec![CallOutcome::Blocks { blocks, unreadable: Vec::new() }]);
        });
        assert!(blocks.is_synced());
        assert!(blocks.own_allocations().is_empty(), "the entry is of another node");
        assert!(blocks.is_assigned(&IpSpace::default_space(), [10, 0, 0, 5].into()));
        assert!(!blocks.is_assigned(&IpSpace::default_space(), [10, 0, 0, 6].into()));
        assert!(!blocks.is_assigned(&IpSpace::network("x"), [10, 0, 0, 5].into()));
    }
}
