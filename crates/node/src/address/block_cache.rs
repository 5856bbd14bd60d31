//! Cache of the address blocks, filled by the watch and by this node's own writes.

use ferroband_address::{BlockList, BlockView, IpBlock, IpBlockId, ResourceVersion};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Cache of all address blocks, shared by the watch, the batch writer and the evidence scan.
#[derive(Debug)]
pub struct AddressBlockCache {
    inner: Mutex<BlockCacheInner>,
    synced: watch::Sender<bool>,
    /// Number of etcd restores detected since the daemon started.
    etcd_restores: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct BlockCacheInner {
    view: BlockView,
    /// Own writes that the watch has not delivered yet. They are applied again after a full list, which may be
    /// older. An address missing from the cache could not be released.
    unconfirmed_writes: HashMap<IpBlockId, (IpBlock, ResourceVersion)>,
    /// Blocks of the full list that is in progress. They replace `view` when the list is complete.
    pending_list: BlockList,
    /// Blocks that were read individually since the full list began, and so may be newer than the list.
    read_during_list: HashSet<IpBlockId>,
}

impl Default for AddressBlockCache {
    fn default() -> Self {
        Self { inner: Mutex::default(), synced: watch::channel(false).0, etcd_restores: watch::channel(0).0 }
    }
}

impl AddressBlockCache {
    /// Creates a cache for `node`. Blocks of this node are cached in full; blocks of other nodes only as summaries.
    pub fn for_node(node: &str) -> Self {
        let inner = BlockCacheInner { view: BlockView::for_node(node), ..BlockCacheInner::default() };
        Self { inner: Mutex::new(inner), ..Self::default() }
    }

    fn lock_inner(&self) -> MutexGuard<'_, BlockCacheInner> {
        // After a panic under the lock, the view is at worst outdated. Writes based on it then fail with a
        // conflict.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first full list of AddressBlocks. Before that, existing addresses of a pod cannot be
    /// found.
    pub async fn wait_synced(&self) {
        // `wait_for` cannot fail, because `self` owns the sender.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Returns a counter that increases whenever a full list is older than the cache, as after an etcd restore.
    pub fn etcd_restores(&self) -> watch::Receiver<u64> {
        self.etcd_restores.subscribe()
    }

    /// Whether the first full list of AddressBlocks is complete.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Starts a full list. The cache keeps its content until [`Self::finish_list`].
    pub fn begin_list(&self) {
        let mut inner = self.lock_inner();
        inner.pending_list = BlockList::default();
        inner.read_during_list.clear();
    }

    /// Adds a block to the full list that is in progress.
    pub fn add_listed(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        let BlockCacheInner { view, pending_list, .. } = &mut *inner;
        view.add_to_list(pending_list, block, version);
    }

    /// Replaces the cached blocks with the list. Own writes that the watch has not confirmed are kept unless the
    /// list shows an etcd restore.
    pub fn finish_list(&self) {
        let mut inner = self.lock_inner();
        let listed = std::mem::take(&mut inner.pending_list);
        let BlockCacheInner { view, unconfirmed_writes, read_during_list, .. } = &mut *inner;
        // A block that this node wrote, or read since the list began, may be newer than the list. A
        // difference in such a block is no sign of an etcd restore.
        let restored = view
            .replace_all(listed, |id| unconfirmed_writes.contains_key(id) || read_during_list.contains(id));
        if restored {
            // The etcd restore has undone these writes.
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
        // The view keeps the newer of its own version and the delivered one. If it has the delivered one, the
        // watch has caught up with the writes of this node.
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

    /// Adds a successful write of this node to the cache, before the watch delivers it.
    pub fn record_write(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        inner.view.observe(block.clone(), version.clone());
        inner.unconfirmed_writes.insert(block.id(), (block, version));
    }

    /// Replaces the cached block with the result of a read; `None` means that the block does not exist.
    pub fn record_read(&self, id: &IpBlockId, found: Option<(IpBlock, ResourceVersion)>) {
        let mut inner = self.lock_inner();
        inner.unconfirmed_writes.remove(id);
        inner.read_during_list.insert(id.clone());
        match found {
            Some((block, version)) => inner.view.refresh(block, version),
            None => inner.view.remove(id),
        }
    }

    /// Calls `plan` with the cached blocks while the cache is locked.
    pub fn with_view<T>(&self, plan: impl FnOnce(&mut BlockView) -> T) -> T {
        plan(&mut self.lock_inner().view)
    }
}
