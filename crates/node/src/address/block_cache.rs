//! Cache of the address blocks, filled by the watch of AddressBlocks and by this node's own writes.

use ferroband_address::{BlockList, BlockView, IpBlock, IpBlockId, ResourceVersion};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap, HashSet};
use tokio::sync::watch;

/// Cache of all address blocks, shared by the watch of AddressBlocks, the batch writer and the evidence scan.
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
    /// Writes of this node that the watch has not delivered yet. Listing all blocks may return older
    /// versions, so these writes are applied again afterwards. An address missing from the cache could not be
    /// released.
    unconfirmed_writes: HashMap<IpBlockId, (IpBlock, ResourceVersion)>,
    /// Blocks received so far while all blocks are being listed. They replace `view` when all are received.
    pending_list: BlockList,
    /// Blocks that were read individually while all blocks are being listed, and so may be newer than the
    /// listed versions.
    read_during_list: HashSet<IpBlockId>,
    /// Names of the blocks that could not be read since [`AddressBlockCache::begin_list`].
    unreadable_in_list: BTreeSet<String>,
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
        // After a panic under the lock, the cached blocks are at worst outdated. Writes based on them then
        // fail with a conflict.
        self.inner.lock()
    }

    /// Waits until all AddressBlocks have been listed once. Before that, existing addresses of a pod cannot
    /// be found.
    pub async fn wait_synced(&self) {
        // `wait_for` cannot fail, because `self` owns the sender.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Returns a counter that increases whenever a listed block is older than its cached version, as after an
    /// etcd restore.
    pub fn etcd_restores(&self) -> watch::Receiver<u64> {
        self.etcd_restores.subscribe()
    }

    /// Whether all AddressBlocks have been listed at least once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Must be called when the watch starts to list all blocks. The cache keeps its content until
    /// [`Self::finish_list`].
    pub fn begin_list(&self) {
        let mut inner = self.lock_inner();
        inner.pending_list = BlockList::default();
        inner.read_during_list.clear();
        inner.unreadable_in_list.clear();
    }

    /// Adds a block that was received since [`Self::begin_list`].
    pub fn add_listed(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        let BlockCacheInner { view, pending_list, .. } = &mut *inner;
        view.add_to_list(pending_list, block, version);
    }

    /// Replaces the cached blocks with those received since [`Self::begin_list`]. Writes of this node that
    /// the watch has not delivered yet are kept, unless the received blocks show an etcd restore.
    pub fn finish_list(&self) {
        let mut inner = self.lock_inner();
        let listed = std::mem::take(&mut inner.pending_list);
        let unreadable = std::mem::take(&mut inner.unreadable_in_list);
        inner.view.replace_unreadable(unreadable);
        let BlockCacheInner { view, unconfirmed_writes, read_during_list, .. } = &mut *inner;
        // A block that this node has written, or has read since `begin_list`, may be newer than its listed
        // version. A difference in such a block is no sign of an etcd restore.
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
        // `observe` keeps the newer of the cached and the delivered version. If it kept the delivered one,
        // the watch has caught up with the writes of this node.
        if inner.view.version(&id) == Some(&version) {
            inner.unconfirmed_writes.remove(&id);
        }
    }

    /// Applies a deletion that the watch delivered. `version` is the version of the deletion. It is ignored if this
    /// node has created the block again since.
    pub fn remove(&self, id: &IpBlockId, version: &ResourceVersion) {
        let mut inner = self.lock_inner();
        if inner.view.remove_deleted(id, version) {
            inner.unconfirmed_writes.remove(id);
        }
    }

    /// Records that the AddressBlock `name` exists but cannot be read. Its addresses are not assigned. Returns
    /// whether this was not known before.
    pub fn mark_unreadable(&self, name: String) -> bool {
        let mut inner = self.lock_inner();
        inner.unreadable_in_list.insert(name.clone());
        inner.view.mark_unreadable(name)
    }

    /// Records that the AddressBlock `name`, which could not be read, is deleted.
    pub fn clear_unreadable(&self, name: &str) {
        self.lock_inner().view.clear_unreadable(name);
    }

    /// Adds a successful write of this node to the cache, before the watch delivers it.
    pub fn record_write(&self, block: IpBlock, version: ResourceVersion) {
        let mut inner = self.lock_inner();
        inner.view.observe(block.clone(), version.clone());
        inner.unconfirmed_writes.insert(block.id(), (block, version));
    }

    /// Replaces the cached block `id` with `found`, the result of reading it. `None` means that the block
    /// does not exist.
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
