//! What this node knows of the granules: what the watch has told and what it wrote itself.

use ferroband_address::{BlockList, BlockView, IpBlock, IpBlockId, ResourceVersion};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// The granules as far as they are known, shared by the watch and the committer.
#[derive(Debug)]
pub struct AddressBlockCache {
    inner: Mutex<BlockCacheInner>,
    synced: watch::Sender<bool>,
    /// Counts how often the API server has forgotten.
    etcd_restores: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct BlockCacheInner {
    view: BlockView,
    /// Own writes that the watch has not shown yet. A new list may be older than they are, and an address that
    /// is forgotten could not be released.
    unconfirmed_writes: HashMap<IpBlockId, (IpBlock, ResourceVersion)>,
    /// A list that is arriving.
    pending_list: BlockList,
    /// What was read since it began.
    read_during_list: HashSet<IpBlockId>,
}

impl Default for AddressBlockCache {
    fn default() -> Self {
        Self { inner: Mutex::default(), synced: watch::channel(false).0, etcd_restores: watch::channel(0).0 }
    }
}

impl AddressBlockCache {
    /// Of a node: what it has itself is at hand, what others have takes little room.
    pub fn for_node(node: &str) -> Self {
        let books = BlockCacheInner { view: BlockView::for_node(node), ..BlockCacheInner::default() };
        Self { inner: Mutex::new(books), ..Self::default() }
    }

    fn lock_inner(&self) -> MutexGuard<'_, BlockCacheInner> {
        // A panic while it was held left a view that is at worst behind, which every write allows for.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once everything has been listed: before that, what a pod has already could not be found.
    pub async fn wait_synced(&self) {
        // The sender lives as long as `self`.
        let _ = self.synced.subscribe().wait_for(|complete| *complete).await;
    }

    /// Changes whenever the API server turns out to have forgotten what it had said (a restore of etcd).
    pub fn etcd_restores(&self) -> watch::Receiver<u64> {
        self.etcd_restores.subscribe()
    }

    /// Whether everything has been listed.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// A full list begins.
    pub fn begin_list(&self) {
        let mut books = self.lock_inner();
        books.pending_list = BlockList::default();
        books.read_during_list.clear();
    }

    /// A granule of the list.
    pub fn add_listed(&self, granule: IpBlock, version: ResourceVersion) {
        let mut books = self.lock_inner();
        let BlockCacheInner { view, pending_list: listed, .. } = &mut *books;
        view.add_to_list(listed, granule, version);
    }

    /// The list has ended.
    pub fn finish_list(&self) {
        let mut books = self.lock_inner();
        let listed = std::mem::take(&mut books.pending_list);
        let BlockCacheInner { view, unconfirmed_writes: written, read_during_list: read, .. } = &mut *books;
        // What is newer than the list for a good reason is no sign that the server forgot.
        let restored = view.replace_all(listed, |id| written.contains_key(id) || read.contains(id));
        if restored {
            // Written to a server that has forgotten it.
            books.unconfirmed_writes.clear();
        }
        let BlockCacheInner { view, unconfirmed_writes: written, .. } = &mut *books;
        for (granule, version) in written.values() {
            view.observe(granule.clone(), version.clone());
        }
        drop(books);
        if restored {
            self.etcd_restores.send_modify(|count| *count += 1);
        }
        self.synced.send_replace(true);
    }

    /// The watch showed a granule.
    pub fn apply_watched(&self, granule: IpBlock, version: ResourceVersion) {
        let mut books = self.lock_inner();
        let id = granule.id();
        books.view.observe(granule, version.clone());
        // If what is known is what has just been seen, nothing of ours is newer.
        if books.view.version(&id) == Some(&version) {
            books.unconfirmed_writes.remove(&id);
        }
    }

    /// The watch showed that a granule's object is gone.
    pub fn remove(&self, id: &IpBlockId) {
        let mut books = self.lock_inner();
        books.view.remove(id);
        books.unconfirmed_writes.remove(id);
    }

    /// A write of ours has succeeded.
    pub fn record_write(&self, granule: IpBlock, version: ResourceVersion) {
        let mut books = self.lock_inner();
        books.view.observe(granule.clone(), version.clone());
        books.unconfirmed_writes.insert(granule.id(), (granule, version));
    }

    /// What a refused write found in its way.
    pub fn record_read(&self, id: &IpBlockId, found: Option<(IpBlock, ResourceVersion)>) {
        let mut books = self.lock_inner();
        books.unconfirmed_writes.remove(id);
        books.read_during_list.insert(id.clone());
        match found {
            Some((granule, version)) => books.view.refresh(granule, version),
            None => books.view.remove(id),
        }
    }

    /// Plan over what is known.
    pub fn with_view<T>(&self, plan: impl FnOnce(&mut BlockView) -> T) -> T {
        plan(&mut self.lock_inner().view)
    }
}
