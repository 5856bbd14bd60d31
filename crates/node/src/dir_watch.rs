//! A folder whose entries are watched.
//!
//! The kubelet, other CNI plugins and udev say what they did by making files. inotify tells at once; readers
//! look at the folder again and never trust the event itself, so that a lost or merged event does no harm.
//!
//! ```text
//! Folder ─┐                                        ┌─▶ Folder::changed
//! Folder ─┼─▶ one inotify instance ── a thread ────┼─▶ Folder::changed
//! Folder ─┘                                        └─▶ Folder::changed
//! ```
//!
//! One instance for the whole process: a machine has 128 of them for each user (fs.inotify.max_user_instances), which
//! the kubelet, the runtime and every other daemon share.

use crate::Error;
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};
use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tokio::{sync::watch, time};
use tracing::info;

/// How often a folder that is not there is looked for.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Room for some events at once; one with the longest name takes 272 bytes.
const EVENT_BUFFER_BYTES: usize = 4096;
/// What the reading thread needs and not more.
const THREAD_STACK_BYTES: usize = 64 * 1024;

/// The instance, once somebody needed it.
static INSTANCE: Mutex<Option<Arc<SharedInotify>>> = Mutex::new(None);

/// The instance and who listens.
struct SharedInotify {
    watches: Watches,
    listeners: Mutex<HashMap<WatchDescriptor, watch::Sender<bool>>>,
}

/// A watched folder.
pub struct WatchedDir {
    descriptor: WatchDescriptor,
    shared: Arc<SharedInotify>,
    /// Sees a change whenever there was one; `true` once the folder is gone.
    changes: watch::Receiver<bool>,
}

impl SharedInotify {
    fn get() -> io::Result<Arc<Self>> {
        let mut shared = INSTANCE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(shared.clone());
        }
        let inotify = Inotify::init()?;
        let made = Arc::new(Self { watches: inotify.watches(), listeners: Mutex::default() });
        let telling = made.clone();
        let thread = thread::Builder::new().name("folders".to_owned()).stack_size(THREAD_STACK_BYTES);
        thread.spawn(move || telling.dispatch_events(inotify))?;
        *shared = Some(made.clone());
        Ok(made)
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<WatchDescriptor, watch::Sender<bool>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read events for as long as the process lives.
    fn dispatch_events(&self, mut inotify: Inotify) {
        let gone = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT;
        let mut buffer = [0; EVENT_BUFFER_BYTES];
        loop {
            let read = inotify.read_events_blocking(&mut buffer);
            let mut listeners = self.listeners();
            let Ok(events) = read else {
                // Interrupted, or out of memory: whatever happened meanwhile, everybody looks again.
                notify_all(&listeners);
                drop(listeners);
                thread::sleep(RETRY_INTERVAL);
                continue;
            };
            for event in events {
                if event.mask.contains(EventMask::Q_OVERFLOW) {
                    notify_all(&listeners);
                } else if event.mask.intersects(gone) {
                    if let Some(listener) = listeners.remove(&event.wd) {
                        listener.send_replace(true);
                    }
                    // One that was only moved is still watched.
                    if event.mask.contains(EventMask::MOVE_SELF) {
                        let _ = self.watches.clone().remove(event.wd);
                    }
                } else if let Some(listener) = listeners.get(&event.wd) {
                    listener.send_replace(false);
                }
            }
        }
    }
}

/// Everybody looks again.
fn notify_all(listeners: &HashMap<WatchDescriptor, watch::Sender<bool>>) {
    for listener in listeners.values() {
        listener.send_replace(false);
    }
}

impl WatchedDir {
    /// Watch `path`; `None` if there is no such folder.
    pub fn watch(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::Watch { path: path.to_owned(), source };
        let shared = SharedInotify::get().map_err(failed)?;
        let mask = WatchMask::CREATE
            | WatchMask::CLOSE_WRITE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        // Held while the watch is made, so that its first event finds a listener.
        let mut listeners = shared.listeners();
        let watched = match shared.watches.clone().add(path, mask) {
            Ok(watched) => watched,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        // The kernel has one watch for one folder, however often it is asked.
        let told = listeners.entry(watched.clone()).or_insert_with(|| watch::channel(false).0).subscribe();
        drop(listeners);
        Ok(Some(Self { descriptor: watched, shared, changes: told }))
    }

    /// Watch `path`, waiting for it to appear.
    pub async fn watch_when_present(path: &Path) -> Result<Self, Error> {
        let mut said = false;
        loop {
            if let Some(folder) = Self::watch(path)? {
                return Ok(folder);
            }
            if !said {
                info!(folder = %path.display(), "waiting for the folder");
                said = true;
            }
            time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns once something in the folder has changed; `false` when the folder itself is gone.
    pub async fn changed(&mut self) -> bool {
        // The sender goes with its folder, after it has said so.
        self.changes.changed().await.is_ok() && !*self.changes.borrow_and_update()
    }
}

impl Drop for WatchedDir {
    fn drop(&mut self) {
        let mut listeners = self.shared.listeners();
        // The last of its listeners, itself.
        if listeners.get(&self.descriptor).is_some_and(|listener| listener.receiver_count() == 1) {
            listeners.remove(&self.descriptor);
            // It may have gone by itself.
            let _ = self.shared.watches.clone().remove(self.descriptor.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn a_new_file_and_the_end_of_the_folder_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("watched");
        assert!(WatchedDir::watch(&path).unwrap().is_none());
        fs::create_dir(&path).unwrap();
        let mut folder = WatchedDir::watch(&path).unwrap().unwrap();

        fs::write(path.join("a"), "").unwrap();
        assert!(folder.changed().await);
        fs::remove_dir_all(&path).unwrap();
        let end = time::timeout(Duration::from_secs(5), async { while folder.changed().await {} });
        end.await.expect("the end of the folder is told");
    }

    #[tokio::test]
    async fn a_folder_that_appears_later_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("later");
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { WatchedDir::watch_when_present(&path).await }
        });
        time::sleep(Duration::from_millis(50)).await;
        fs::create_dir(&path).unwrap();
        let mut folder = waiting.await.unwrap().unwrap();
        fs::write(path.join("a"), "").unwrap();
        assert!(folder.changed().await);
    }

    #[tokio::test]
    async fn two_listeners_of_one_folder_hear_everything_until_they_go() {
        let dir = tempfile::tempdir().unwrap();
        let (first, mut second) = (
            WatchedDir::watch(dir.path()).unwrap().unwrap(),
            WatchedDir::watch(dir.path()).unwrap().unwrap(),
        );
        drop(first);
        fs::write(dir.path().join("a"), "").unwrap();
        assert!(second.changed().await, "the other's end is not its own");
        let mut third = WatchedDir::watch(dir.path()).unwrap().unwrap();
        drop(second);
        fs::write(dir.path().join("b"), "").unwrap();
        assert!(third.changed().await);
        let instances = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links = instances.filter_map(|fd| fs::read_link(fd.path()).ok());
        assert_eq!(links.filter(|link| link.to_string_lossy().contains("inotify")).count(), 1);
    }
}
