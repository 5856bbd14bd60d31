//! Address blocks known to this node: from the watch and from its own writes.

use ferroband_address::{BlockList, BlockView, IpBlock, IpBlockId, ResourceVersion};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// The address blocks, shared by the watch and the batch writer.
#[derive(Debug)]
pub struct AddressBlockCache {
    inner: Mutex<BlockCacheInner>,
    synced: watch::Sender<bool>,
    /// Number of etcd restores seen.
    etcd_restores: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct BlockCacheInner {
    view: BlockView,
    /// Own writes that the watch has not delivered yet. A new list may be older than they are, and a forgotten
    /// address could not be released.
    unconfirmed_writes: HashMap<IpBlockId, (IpBlock, ResourceVersion)>,
    /// The list in progress.
    pending_list: BlockList,
    /// Blocks read since the list began.
    read_during_list: HashSet<IpBlockId>,
}

impl Default for AddressBlockCache {
    fn default() -> Self {
        Self { inner: Mutex::default(), synced: watch::channel(false).0, etcd_restores: watch::channel(0).0 }
    }
}

impl AddressBlockCache {
    /// A cache for `node`: its own blocks are kept in full, those of other nodes in summary.
    pub fn for_node(node: &str) -> Self {
        let inner = BlockCacheInner { view: BlockView::for_node(node), ..BlockCacheInner::default() };
        Self { inner: Mutex::new(inner), ..Self::default() }
    }

    fn lock_inner(&self) -> MutexGuard<'_, BlockCacheInner> {
        // A panic while the lock was held leaves a view that is at worst outdated, which every write allows for.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first complete list. Before that, existing addresses of a pod cannot be found.
    pub async fn wait_synced(&self) {
        // The sender lives as long as `self`.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Changes whenever a list is older than what the API server had reported before (an etcd restore).
    pub fn etcd_restores(&self) -> watch::Receiver<u64> {
        self.etcd_restores.subscribe()
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Starts a full list.
    pub fn begin_list(&self) {
        let mut inner = self.lock_inner();
        inner.pending_list = BlockList::default();
        inner.read_during_list.clear();
    }

    /// Adds a block of the list.
    pub fn add_listed(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        let BlockCacheInner { view, pending_list, .. } = &mut *inner;
        view.add_to_list(pending_list, block, version);
    }

    /// Ends the list and replaces the cached blocks with it.
    pub fn finish_list(&self) {
        let mut inner = self.lock_inner();
        let listed = std::mem::take(&mut inner.pending_list);
        let BlockCacheInner { view, unconfirmed_writes, read_during_list, .. } = &mut *inner;
        // A block that this node wrote or read after the list began is newer than the list without a restore.
        let restored = view
            .replace_all(listed, |id| unconfirmed_writes.contains_key(id) || read_during_list.contains(id));
        if restored {
            // The restored API server has lost these writes.
            inner.unconfirmed_writes.clear();
        }
        let BlockCacheInner { view, unconfirmed_writes, .. } = &mut *inner;
        for (block, version) in unconfirmed_writes.values() {
            view.observe(block.clone(), version.clone());
        }
        drop(inner);
        if restored {
            self.etcd_restores.send_modify(|count| *count += 1);
        }
        self.synced.send_replace(true);
    }

    /// Applies a block that the watch delivered.
    pub fn apply_watched(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        let id = block.id();
        inner.view.observe(block, version.clone());
        // If the cached version is the one just delivered, no own write is newer.
        if inner.view.version(&id) == Some(&version) {
            inner.unconfirmed_writes.remove(&id);
        }
    }

    /// Applies a deletion that the watch delivered.
    pub fn remove(&self, id: &IpBlockId) {
        let mut inner = self.lock_inner();
        inner.view.remove(id);
        inner.unconfirmed_writes.remove(id);
    }

    /// Records a successful write of this node.
    pub fn record_write(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        inner.view.observe(block.clone(), version.clone());
        inner.unconfirmed_writes.insert(block.id(), (block, version));
    }

    /// Records what a read found after a conflict.
    pub fn record_read(&self, id: &IpBlockId, found: Option<(IpBlock, ResourceVersion)>) {
        let mut inner = self.lock_inner();
        inner.unconfirmed_writes.remove(id);
        inner.read_during_list.insert(id.clone());
        match found {
            Some((block, version)) => inner.view.refresh(block, version),
            None => inner.view.remove(id),
        }
    }

    /// Calls `plan` with the cached blocks.
    pub fn with_view<T>(&self, plan: impl FnOnce(&mut BlockView) -> T) -> T {
        plan(&mut self.lock_inner().view)
    }
}
