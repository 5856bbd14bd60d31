//! Finds changes of a directory by listing it again and again, on hosts without a free inotify instance or watch.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// How often the directory is listed. A pod may wait for a change, such as a new device plugin socket.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Inode, size and time of the last change (seconds, nanoseconds) of a file.
type FileStamp = (u64, u64, i64, i64);

pub struct PolledDir {
    path: PathBuf,
    seen: DirListing,
    next: Instant,
}

#[derive(PartialEq, Eq)]
struct DirListing {
    /// Inode of the directory. Another one means that it was replaced.
    directory: u64,
    files: BTreeMap<OsString, FileStamp>,
}

impl PolledDir {
    /// Returns `None` if the directory does not exist or cannot be read.
    pub fn open(path: &Path) -> Option<Self> {
        let seen = DirListing::read(path).ok()?;
        Some(Self { path: path.to_owned(), seen, next: Instant::now() + POLL_INTERVAL })
    }

    /// Waits for a change, see [`super::WatchedDir::changed`].
    pub async fn changed(&mut self) -> bool {
        loop {
            // The time of the next look is kept, because a caller may give up and call again at any time.
            sleep_until(self.next).await;
            self.next = Instant::now() + POLL_INTERVAL;
            match DirListing::read(&self.path) {
                Ok(now) if now.directory != self.seen.directory => return false,
                Ok(now) if now != self.seen => {
                    self.seen = now;
                    return true;
                }
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

impl DirListing {
    fn read(path: &Path) -> io::Result<Self> {
        let directory = fs::metadata(path)?.ino();
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // A file that was just removed is left out.
            if let Ok(file) = entry.metadata() {
                let stamp = (file.ino(), file.size(), file.mtime(), file.mtime_nsec());
                files.insert(entry.file_name(), stamp);
            }
        }
        Ok(Self { directory, files })
    }
}
