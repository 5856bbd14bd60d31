//! Watches directories with inotify.
//!
//! The kubelet, other CNI plugins and udev signal changes by creating files. inotify reports them at once. Readers
//! always list the directory again and never rely on the event itself, so lost or merged events do no harm.
//!
//! ```text
//! WatchedDir ─┐                                            ┌─▶ WatchedDir::changed
//! WatchedDir ─┼─▶ one inotify instance ── reader thread ───┼─▶ WatchedDir::changed
//! WatchedDir ─┘                                            └─▶ WatchedDir::changed
//! ```
//!
//! The process has a single inotify instance, because each user may only have 128 (fs.inotify.max_user_instances) and
//! the kubelet, the runtime and all other root daemons share them. If none is left, directories are polled.

mod polled_dir;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};
use parking_lot::Mutex;
use polled_dir::PolledDir;
use std::{collections::HashMap, io, path::Path, sync::Arc, thread, time::Duration};
use tokio::{sync::watch, time};
use tracing::{info, warn};

/// How often to look for a directory that does not exist yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Size of the read buffer. It holds several inotify events: one with the longest file name takes 272 bytes.
const EVENT_BUFFER_BYTES: usize = 4096;
const THREAD_STACK_BYTES: usize = 64 * 1024;

/// The process-wide inotify instance, created when the first directory is watched.
static INSTANCE: Mutex<Option<Arc<SharedInotify>>> = Mutex::new(None);

/// The inotify instance, and one channel for each watched directory. The value of a channel becomes `true`
/// when its directory is deleted or moved.
struct SharedInotify {
    watches: Watches,
    listeners: Mutex<HashMap<WatchDescriptor, watch::Sender<bool>>>,
}

/// A watch on one directory.
pub enum WatchedDir {
    Inotify(InotifyWatch),
    /// inotify is not available.
    Polled(PolledDir),
}

/// An inotify watch. It ends when the last `InotifyWatch` of the directory is dropped.
pub struct InotifyWatch {
    descriptor: WatchDescriptor,
    shared: Arc<SharedInotify>,
    /// Notified on every change in the directory. The value becomes `true` when the directory is deleted or
    /// moved.
    changes: watch::Receiver<bool>,
}

impl SharedInotify {
    fn get() -> io::Result<Arc<Self>> {
        let mut shared = INSTANCE.lock();
        if let Some(shared) = &*shared {
            return Ok(shared.clone());
        }
        let inotify = Inotify::init()?;
        let instance = Arc::new(Self { watches: inotify.watches(), listeners: Mutex::default() });
        let reader = instance.clone();
        let thread = thread::Builder::new().name("folders".to_owned()).stack_size(THREAD_STACK_BYTES);
        thread.spawn(move || reader.dispatch_events(inotify))?;
        *shared = Some(instance.clone());
        Ok(instance)
    }

    fn add(self: Arc<Self>, path: &Path) -> io::Result<InotifyWatch> {
        let mask = WatchMask::CREATE
            | WatchMask::CLOSE_WRITE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        // Hold the lock until the listener is registered, so that the first event is not lost.
        let mut listeners = self.listeners.lock();
        let descriptor = self.watches.clone().add(path, mask)?;
        // The kernel returns the same descriptor if the directory is already watched, so its listeners share
        // a channel.
        let changes =
            listeners.entry(descriptor.clone()).or_insert_with(|| watch::channel(false).0).subscribe();
        drop(listeners);
        Ok(InotifyWatch { descriptor, shared: self, changes })
    }

    /// Reads inotify events and notifies the listeners of each directory, until the process ends.
    fn dispatch_events(&self, mut inotify: Inotify) {
        let gone = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT;
        let mut buffer = [0; EVENT_BUFFER_BYTES];
        loop {
            let read = inotify.read_events_blocking(&mut buffer);
            let mut listeners = self.listeners.lock();
            let Ok(events) = read else {
                // The read was interrupted or the kernel is out of memory. Events may be lost, so every
                // listener must list its directory again.
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
                    // The kernel keeps watching a directory that was moved, so its watch is removed here.
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

/// Makes every listener list its directory again.
fn notify_all(listeners: &HashMap<WatchDescriptor, watch::Sender<bool>>) {
    for listener in listeners.values() {
        listener.send_replace(false);
    }
}

impl WatchedDir {
    /// Watches `path`. Returns `None` if the directory does not exist.
    pub fn watch(path: &Path) -> Option<Self> {
        Self::watch_with(path, SharedInotify::get())
    }

    fn watch_with(path: &Path, inotify: io::Result<Arc<SharedInotify>>) -> Option<Self> {
        match inotify.and_then(|shared| shared.add(path)) {
            Ok(watch) => Some(Self::Inotify(watch)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                let polled = PolledDir::open(path)?;
                // A crash would not help: the limits belong to all programs of the host.
                warn!(
                    folder = %path.display(), error = %e,
                    "cannot watch the directory with inotify, polling it; raise fs.inotify.max_user_instances and \
                     fs.inotify.max_user_watches on this node"
                );
                Some(Self::Polled(polled))
            }
        }
    }

    /// Watches `path`. If the directory does not exist yet, waits until it does.
    pub async fn watch_when_present(path: &Path) -> Self {
        let mut logged = false;
        loop {
            if let Some(folder) = Self::watch(path) {
                return folder;
            }
            if !logged {
                info!(folder = %path.display(), "directory does not exist yet, waiting for it");
                logged = true;
            }
            time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Waits for a change. Returns `true` if an entry of the directory changed, and `false` if the directory
    /// itself is gone.
    pub async fn changed(&mut self) -> bool {
        match self {
            // An error means that the sender was dropped, which happens after it has reported that the directory
            // is gone.
            Self::Inotify(watch) => {
                watch.changes.changed().await.is_ok() && !*watch.changes.borrow_and_update()
            }
            Self::Polled(folder) => folder.changed().await,
        }
    }
}

impl Drop for InotifyWatch {
    fn drop(&mut self) {
        let mut listeners = self.shared.listeners.lock();
        // If this is the last receiver, nothing listens for changes in the directory any longer.
        if listeners.get(&self.descriptor).is_some_and(|listener| listener.receiver_count() == 1) {
            listeners.remove(&self.descriptor);
            // The kernel may have removed the watch already, so an error is ignored.
            let _ = self.shared.watches.clone().remove(self.descriptor.clone());
        }
    }
}

#[cfg(test)]
mod tests;
