//! Retries the release of a sandbox's addresses and partition memberships if DEL could not release them,
//! because the daemon or the API server was unavailable.
//!
//! DEL stores each such release as a file in the state directory.

use crate::{
    Error,
    address::AllocatorHandle,
    error::{blocking, error_chain},
    pending_files::process_pending,
};
use ferroband_address::AddressRelease;
use ferroband_attach::pending_release::{PendingRelease, ReleaseClaim, list_pending};
use ferroband_kernel::Root;
use ferroband_partition::PartitionMembership;
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};

const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Retries the pending releases in the state directory under `root`. Returns only errors.
pub async fn retry_pending_releases(
    root: Root,
    allocator: AllocatorHandle,
    partitions: Arc<dyn PartitionMembership>,
) -> Result<(), Error> {
    let list = || async {
        let at = root.clone();
        let mut releases = Vec::new();
        for release in blocking("pending files", move || list_pending(&at)).await?? {
            match release {
                Ok(release) => releases.push(release),
                // An unreadable file is kept for inspection and not retried.
                Err(e) => warn!(error = %error_chain(&e), "cannot read a pending release file, skipping it"),
            }
        }
        Ok(releases)
    };
    let retry = |release| retry_one(&root, &allocator, partitions.as_ref(), release);
    process_pending(&root.state("owed"), list, retry).await
}

/// Retries one release. Returns `false` if it must be retried again.
async fn retry_one(
    root: &Root,
    allocator: &AllocatorHandle,
    partitions: &dyn PartitionMembership,
    pending: PendingRelease,
) -> Result<bool, Error> {
    let at = root.clone();
    // While the release is claimed, no CNI call for the same sandbox runs.
    let Some(claim) = blocking("pending files", move || pending.claim(&at)).await?? else { return Ok(false) };
    let PendingRelease { container, ifname, .. } = claim.release().clone();
    partitions.remove_sandbox(&container, ifname.as_deref());
    let release =
        AddressRelease { container: container.clone(), interface: ifname, ..AddressRelease::default() };
    if !allocator.release(release, RELEASE_TIMEOUT).await {
        return Ok(false);
    }
    let at = root.clone();
    blocking("pending files", move || ReleaseClaim::complete(claim, &at)).await??;
    info!(container, "pending release completed");
    Ok(true)
}

#[cfg(test)]
mod tests;
