//! Retries the release of a sandbox's addresses and partition memberships if DEL could not release them,
//! because the daemon or the API server was unavailable.
//!
//! DEL stores each such release as a file in the state directory. The daemon processes the files when it
//! starts, when a file appears, and again after a delay if a release failed.

use crate::{Error, address::AllocatorHandle, dir_watch::WatchedDir, error::error_chain};
use ferroband_address::AddressRelease;
use ferroband_attach::pending_release::{PendingRelease, ReleaseClaim, list_pending};
use ferroband_kernel::Root;
use ferroband_partition::PartitionMembership;
use futures::{StreamExt, TryStreamExt, stream};
use std::{sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_CONCURRENT_RELEASES: usize = 16;
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Retries the pending releases in the state directory under `root` until `stop` is cancelled.
pub async fn retry_pending_releases(
    root: Root,
    allocator: AllocatorHandle,
    partitions: Arc<dyn PartitionMembership>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let folder = root.state("owed");
    let retrying = async {
        loop {
            let mut watched = WatchedDir::watch_when_present(&folder).await?;
            loop {
                let left = retry_all(&root, &allocator, partitions.as_ref()).await?;
                let wait = if left { RETRY_DELAY } else { Duration::MAX };
                match time::timeout(wait, watched.changed()).await {
                    Ok(true) | Err(_) => {}
                    Ok(false) => break,
                }
            }
        }
    };
    tokio::select! {
        end = retrying => end,
        () = stop.cancelled() => Ok(()),
    }
}

/// Retries every pending release. Returns `true` if at least one failed and must be retried.
async fn retry_all(
    root: &Root,
    allocator: &AllocatorHandle,
    partitions: &dyn PartitionMembership,
) -> Result<bool, Error> {
    let root_clone = root.clone();
    let mut releases = Vec::new();
    for release in blocking(move || list_pending(&root_clone)).await?? {
        match release {
            Ok(release) => releases.push(release),
            // An unreadable file is kept for inspection and not retried.
            Err(e) => warn!(error = %error_chain(&e), "cannot read a pending release file, skipping it"),
        }
    }
    // The releases run concurrently, so that the allocator writes them in one batch.
    let retrying = stream::iter(releases)
        .map(|release| retry_one(root, allocator, partitions, release))
        .buffer_unordered(MAX_CONCURRENT_RELEASES);
    retrying.try_fold(false, |left, completed| async move { Ok(left || !completed) }).await
}

async fn retry_one(
    root: &Root,
    allocator: &AllocatorHandle,
    partitions: &dyn PartitionMembership,
    pending: PendingRelease,
) -> Result<bool, Error> {
    let at = root.clone();
    // While the release is claimed, no CNI call for the same sandbox runs.
    let Some(claim) = blocking(move || pending.claim(&at)).await?? else { return Ok(false) };
    let PendingRelease { container, ifname, .. } = claim.release().clone();
    partitions.remove_sandbox(&container, ifname.as_deref());
    let release =
        AddressRelease { container: container.clone(), interface: ifname, ..AddressRelease::default() };
    if !allocator.release(release, RELEASE_TIMEOUT).await {
        return Ok(false);
    }
    let at = root.clone();
    blocking(move || ReleaseClaim::complete(claim, &at)).await??;
    info!(container, "pending release completed");
    Ok(true)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    spawn_blocking(work)
        .await
        .map_err(|e| Error::Task { task: "pending releases", source: Some(Box::new(e)) })
}

#[cfg(test)]
mod tests;
