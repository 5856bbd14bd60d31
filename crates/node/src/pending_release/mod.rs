//! Releases that DEL could not tell us, because this daemon or the API server was away.
//!
//! They lie in files beside the journal. They are settled when the daemon starts, when a file appears, and again
//! after a while if that did not work.

use crate::{
    Error, address::AllocatorHandle, dir_watch::WatchedDir, error::error_chain, serve::PartitionManager,
};
use ferroband_address::AddressRelease;
use ferroband_attach::owed::{PendingRelease, ReleaseClaim, list_pending};
use ferroband_kernel::Root;
use futures::{StreamExt, TryStreamExt, stream};
use std::{sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How long one release is waited for before the others get their turn.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many are settled at once.
const MAX_CONCURRENT_RELEASES: usize = 16;
/// How long what could not be settled lies.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Settle what is owed on the machine under `root`, until `stop`.
pub async fn retry_pending_releases(
    root: Root,
    desk: AllocatorHandle,
    membership: Arc<dyn PartitionManager>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let folder = root.state("owed");
    let settling = async {
        loop {
            let mut watched = WatchedDir::watch_when_present(&folder).await?;
            loop {
                let left = retry_all(&root, &desk, membership.as_ref()).await?;
                let wait = if left { RETRY_DELAY } else { Duration::MAX };
                match time::timeout(wait, watched.changed()).await {
                    Ok(true) | Err(_) => {}
                    Ok(false) => break,
                }
            }
        }
    };
    tokio::select! {
        end = settling => end,
        () = stop.cancelled() => Ok(()),
    }
}

/// Settle everything that can be; `true` if something is left.
async fn retry_all(
    root: &Root,
    desk: &AllocatorHandle,
    membership: &dyn PartitionManager,
) -> Result<bool, Error> {
    let at = root.clone();
    let mut debts = Vec::new();
    for owed in blocking(move || list_pending(&at)).await?? {
        match owed {
            Ok(owed) => debts.push(owed),
            // It stays: somebody may still want to read it.
            Err(e) => warn!(error = %error_chain(&e), "a debt cannot be read"),
        }
    }
    // Some at once, so that they are committed together.
    let settling = stream::iter(debts)
        .map(|owed| retry_one(root, desk, membership, owed))
        .buffer_unordered(MAX_CONCURRENT_RELEASES);
    settling.try_fold(false, |left, settled| async move { Ok(left || !settled) }).await
}

async fn retry_one(
    root: &Root,
    desk: &AllocatorHandle,
    membership: &dyn PartitionManager,
    owed: PendingRelease,
) -> Result<bool, Error> {
    let at = root.clone();
    // While it is claimed no call of the same sandbox runs.
    let Some(claim) = blocking(move || owed.claim(&at)).await?? else { return Ok(false) };
    let PendingRelease { container, ifname, .. } = claim.release().clone();
    membership.remove_sandbox(&container, ifname.as_deref());
    let release = AddressRelease { container: container.clone(), interface: ifname };
    if !desk.release(release, RELEASE_TIMEOUT).await {
        return Ok(false);
    }
    let at = root.clone();
    blocking(move || ReleaseClaim::complete(claim, &at)).await??;
    info!(container, "settled a release that was owed");
    Ok(true)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|e| Error::Task { task: "settling debts", source: Some(Box::new(e)) })
}

#[cfg(test)]
mod tests;
