//! Processes the files that the CNI plugin leaves for the daemon in a directory: when the daemon starts, when a file
//! appears, and again after a delay if one could not be processed.

use crate::{Error, dir_watch::WatchedDir};
use futures::{StreamExt, TryStreamExt, stream};
use std::{path::Path, time::Duration};
use tokio::time;

const RETRY_DELAY: Duration = Duration::from_secs(10);
/// The files are processed concurrently, so that their writes to the API server go into one batch.
const MAX_CONCURRENT: usize = 16;

/// Calls `process` for everything that `list` returns. Returns only errors. `process` returns `false` if it must be
/// called again later.
pub async fn process_pending<T, Listing, Processing>(
    folder: &Path,
    list: impl Fn() -> Listing,
    process: impl Fn(T) -> Processing,
) -> Result<(), Error>
where
    Listing: Future<Output = Result<Vec<T>, Error>>,
    Processing: Future<Output = Result<bool, Error>>,
{
    loop {
        let mut watched = WatchedDir::watch_when_present(folder).await;
        loop {
            let results = stream::iter(list().await?).map(&process).buffer_unordered(MAX_CONCURRENT);
            let left = results.try_fold(false, |left, done| async move { Ok(left || !done) }).await?;
            let wait = if left { RETRY_DELAY } else { Duration::MAX };
            match time::timeout(wait, watched.changed()).await {
                Ok(true) | Err(_) => {}
                Ok(false) => break,
            }
        }
    }
}
