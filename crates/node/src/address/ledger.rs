//! What this node knows of the granules: what the watch has told and what it wrote itself.

use ferroband_address::{Granule, GranuleId, Listed, Version, View};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// The granules as far as they are known, shared by the watch and the committer.
#[derive(Debug)]
pub struct Ledger {
    books: Mutex<Books>,
    complete: watch::Sender<bool>,
    /// Counts how often the API server has forgotten.
    restores: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Books {
    view: View,
    /// Own writes that the watch has not shown yet. A new list may be older than they are, and an address that
    /// is forgotten could not be released.
    written: HashMap<GranuleId, (Granule, Version)>,
    /// A list that is arriving.
    listed: Listed,
    /// What was read since it began.
    read: HashSet<GranuleId>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { books: Mutex::default(), complete: watch::channel(false).0, restores: watch::channel(0).0 }
    }
}

impl Ledger {
    /// Of a node: what it has itself is at hand, what others have takes little room.
    pub fn of_node(node: &str) -> Self {
        let books = Books { view: View::of_node(node), ..Books::default() };
        Self { books: Mutex::new(books), ..Self::default() }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A panic while it was held left a view that is at worst behind, which every write allows for.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once everything has been listed: before that, what a pod has already could not be found.
    pub async fn complete(&self) {
        // The sender lives as long as `self`.
        let _ = self.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// Changes whenever the API server turns out to have forgotten what it had said (a restore of etcd).
    pub fn restores(&self) -> watch::Receiver<u64> {
        self.restores.subscribe()
    }

    /// Whether everything has been listed.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// A full list begins.
    pub fn list_begins(&self) {
        let mut books = self.books();
        books.listed = Listed::default();
        books.read.clear();
    }

    /// A granule of the list.
    pub fn listed(&self, granule: Granule, version: Version) {
        let mut books = self.books();
        let Books { view, listed, .. } = &mut *books;
        view.list(listed, granule, version);
    }

    /// The list has ended.
    pub fn list_ends(&self) {
        let mut books = self.books();
        let listed = std::mem::take(&mut books.listed);
        let Books { view, written, read, .. } = &mut *books;
        // What is newer than the list for a good reason is no sign that the server forgot.
        let restored = view.take(listed, |id| written.contains_key(id) || read.contains(id));
        if restored {
            // Written to a server that has forgotten it.
            books.written.clear();
        }
        let Books { view, written, .. } = &mut *books;
        for (granule, version) in written.values() {
            view.observe(granule.clone(), version.clone());
        }
        drop(books);
        if restored {
            self.restores.send_modify(|count| *count += 1);
        }
        self.complete.send_replace(true);
    }

    /// The watch showed a granule.
    pub fn seen(&self, granule: Granule, version: Version) {
        let mut books = self.books();
        let id = granule.id();
        books.view.observe(granule, version.clone());
        // If what is known is what has just been seen, nothing of ours is newer.
        if books.view.version(&id) == Some(&version) {
            books.written.remove(&id);
        }
    }

    /// The watch showed that a granule's object is gone.
    pub fn gone(&self, id: &GranuleId) {
        let mut books = self.books();
        books.view.forget(id);
        books.written.remove(id);
    }

    /// A write of ours has succeeded.
    pub fn wrote(&self, granule: Granule, version: Version) {
        let mut books = self.books();
        books.view.observe(granule.clone(), version.clone());
        books.written.insert(granule.id(), (granule, version));
    }

    /// What a refused write found in its way.
    pub fn reread(&self, id: &GranuleId, found: Option<(Granule, Version)>) {
        let mut books = self.books();
        books.written.remove(id);
        books.read.insert(id.clone());
        match found {
            Some((granule, version)) => books.view.refresh(granule, version),
            None => books.view.forget(id),
        }
    }

    /// Plan over what is known.
    pub fn plan<T>(&self, plan: impl FnOnce(&mut View) -> T) -> T {
        plan(&mut self.books().view)
    }
}
