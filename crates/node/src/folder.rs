//! A folder whose entries are watched.
//!
//! The kubelet, other CNI plugins and udev say what they did by making files. inotify tells at once; readers
//! look at the folder again and never trust the event itself, so that a lost or merged event does no harm.

use crate::Error;
use futures::{FutureExt, StreamExt};
use inotify::{EventMask, EventStream, Inotify, WatchMask};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time;
use tracing::info;

/// How often a folder that is not there is looked for.
const RETRY: Duration = Duration::from_millis(500);

/// Room for some events at once; one with the longest name takes 272 bytes.
const BUFFER: usize = 1024;

/// A watched folder.
pub struct Folder {
    path: PathBuf,
    events: EventStream<[u8; BUFFER]>,
}

impl Folder {
    /// Watch `path`; `None` if there is no such folder.
    pub fn watch(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::Watch { path: path.to_owned(), source };
        let inotify = Inotify::init().map_err(failed)?;
        let mask = WatchMask::CREATE
            | WatchMask::CLOSE_WRITE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        match inotify.watches().add(path, mask) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        }
        let events = inotify.into_event_stream([0; BUFFER]).map_err(failed)?;
        Ok(Some(Self { path: path.to_owned(), events }))
    }

    /// Watch `path`, waiting for it to appear.
    pub async fn appear(path: &Path) -> Result<Self, Error> {
        let mut said = false;
        loop {
            if let Some(folder) = Self::watch(path)? {
                return Ok(folder);
            }
            if !said {
                info!(folder = %path.display(), "waiting for the folder");
                said = true;
            }
            time::sleep(RETRY).await;
        }
    }

    /// Returns once something in the folder has changed; `false` when the folder itself is gone.
    pub async fn changed(&mut self) -> Result<bool, Error> {
        let gone = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT;
        let mut next = self.events.next().await;
        // What has happened at once is told at once.
        loop {
            match next {
                Some(Ok(event)) if event.mask.intersects(gone) => return Ok(false),
                Some(Ok(_)) => {}
                Some(Err(source)) => return Err(Error::Watch { path: self.path.clone(), source }),
                None => return Ok(false),
            }
            match self.events.next().now_or_never() {
                Some(more) => next = more,
                None => return Ok(true),
            }
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
        assert!(Folder::watch(&path).unwrap().is_none());
        fs::create_dir(&path).unwrap();
        let mut folder = Folder::watch(&path).unwrap().unwrap();

        fs::write(path.join("a"), "").unwrap();
        assert!(folder.changed().await.unwrap());
        fs::remove_dir_all(&path).unwrap();
        let end = time::timeout(Duration::from_secs(5), async { while folder.changed().await.unwrap() {} });
        end.await.expect("the end of the folder is told");
    }

    #[tokio::test]
    async fn a_folder_that_appears_later_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("later");
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { Folder::appear(&path).await }
        });
        time::sleep(Duration::from_millis(50)).await;
        fs::create_dir(&path).unwrap();
        let mut folder = waiting.await.unwrap().unwrap();
        fs::write(path.join("a"), "").unwrap();
        assert!(folder.changed().await.unwrap());
    }
}
