//! Compares the entries of this node in the address blocks with the sandboxes on the node. Each sandbox has a
//! journal, the file in which the CNI plugin records its changes.
//!
//! ```text
//!  entry whose sandbox is certainly gone                          ──▶ released: nothing can use the address
//!  entry without a journal, no pod with that UID on this node, and
//!  no network namespace that has the address                      ──▶ released: the ADD or DEL was interrupted
//!  partition member without a running sandbox                     ──▶ removed: nothing can use the port
//!  journal of a running sandbox without an entry                  ──▶ restored: the API server lost it (etcd restore)
//! ```
//!
//! An address is released only if two scans in a row agree, because an ADD or DEL in progress may have changed only
//! the journal or only the entry. State that cannot be read is no evidence, so it causes no release.

use super::sandboxes::{Sandboxes, addresses_in_use};
use crate::{
    Error,
    address::{AllocatorHandle, AssignmentGate, OwnBlocks, QUARANTINE_UID},
    caches::PodFacts,
    error::{blocking, error_chain},
};
use ferroband_address::{
    AddressAllocation, AddressPool, AddressRelease, AddressRequest, IpSpace, whereabouts::WhereaboutsConfig,
};
use ferroband_attach::journal::Journal;
use ferroband_daemon::watch_cache::WatchCache;
use ferroband_kernel::Root;
use ferroband_model::{FaultCode, PodRef};
use ferroband_partition::PartitionMembership;
use ipnet::IpNet;
use std::{collections::BTreeSet, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time};
use tracing::{info, warn};

/// Interval between two scans once the allocations of all running sandboxes are restored.
const SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between two scans until the allocations of all running sandboxes are restored. No new address is
/// assigned before that.
const RESTORE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest interval between two lists of the node's blocks because of imported entries.
const IMPORT_RELIST_INTERVAL: Duration = Duration::from_secs(30);
/// How long one release may take to be written to the API server.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Periodic scan that releases addresses of sandboxes that are gone and restores lost allocations of running
/// sandboxes.
pub struct Evidence {
    pub root: Root,
    /// Directories in which the runtime keeps the network namespaces of its sandboxes.
    pub netns_dirs: Vec<PathBuf>,
    pub node: String,
    pub blocks: Arc<OwnBlocks>,
    pub allocator: AllocatorHandle,
    pub pods: Arc<WatchCache<PodFacts>>,
    /// Partition members of this node. Members of sandboxes that are gone are removed.
    pub membership: Arc<dyn PartitionMembership>,
    /// Identifies the last restore of etcd, which may have lost allocations; empty if there was none.
    pub epoch: watch::Receiver<String>,
    /// Set to the epoch for which the allocations of all running sandboxes are restored; `None` before the first scan. No
    /// new address is assigned before that.
    pub asserted: watch::Sender<Option<String>>,
    pub gate: AssignmentGate,
}

/// Results of the previous scan. An address is released only if two scans in a row find its sandbox gone.
/// After the first scan, a lost allocation is restored only if two scans in a row find it missing.
#[derive(Default)]
struct PreviousScan {
    /// IDs of containers whose sandboxes seem to be gone.
    suspected_gone: BTreeSet<String>,
    /// Addresses of running sandboxes that no address block contains, with the container ID. `None` before
    /// the first scan.
    missing_allocations: Option<BTreeSet<(IpAddr, String)>>,
    /// Allocations of this node that were known before etcd was restored. They include those of ADDs in progress, whose
    /// journals are not complete.
    remembered: Vec<(IpSpace, IpAddr, AddressAllocation)>,
    /// UIDs of the node's pods.
    pods: BTreeSet<String>,
    /// Whether a pod is gone since the blocks were listed, and when they were last listed for that reason.
    relist: (bool, Option<time::Instant>),
}

impl Evidence {
    /// Scans periodically. Never returns.
    pub async fn run(self) {
        self.blocks.wait_synced().await;
        self.pods.wait_synced().await;
        let mut previous = PreviousScan::default();
        let mut epochs = self.epoch.clone();
        let mut epoch = epochs.borrow_and_update().clone();
        loop {
            self.scan(&mut previous, &epoch).await;
            let is_asserted = self.asserted.borrow().as_ref() == Some(&epoch);
            let pause = time::sleep(if is_asserted { SCAN_INTERVAL } else { RESTORE_RETRY_INTERVAL });
            tokio::select! {
                () = pause => {}
                Ok(()) = epochs.changed() => {
                    epoch = epochs.borrow_and_update().clone();
                    warn!(epoch, "etcd was restored, restoring the allocations of running pods");
                    previous.remembered.extend(self.own_allocations());
                    previous = PreviousScan { remembered: previous.remembered, ..PreviousScan::default() };
                    self.blocks.relist().await;
                }
            }
        }
    }

    /// Lists the node's blocks again if a pod is gone while the leader imports entries of other systems. The pod may have
    /// had one, which nobody else releases.
    async fn find_imported(&self, previous: &mut PreviousScan) {
        let pods: BTreeSet<String> = self.pods.values().iter().map(|pod| pod.uid.clone()).collect();
        let (pending, last) = previous.relist;
        let is_due = last.is_none_or(|last| last.elapsed() >= IMPORT_RELIST_INTERVAL);
        let pending =
            self.gate.is_importing() && (pending || previous.pods.iter().any(|uid| !pods.contains(uid)));
        previous.pods = pods;
        previous.relist = match pending && is_due {
            true => {
                self.blocks.relist().await;
                (false, Some(time::Instant::now()))
            }
            false => (pending, last),
        };
    }

    async fn scan(&self, previous: &mut PreviousScan, epoch: &str) {
        self.find_imported(previous).await;
        match self.read_sandboxes().await {
            Ok(sandboxes) => {
                match self.restore_running(&sandboxes, previous.missing_allocations.as_ref()).await {
                    Some(missing) => previous.missing_allocations = Some(missing),
                    // The API server is unavailable, so allocations of running sandboxes may still be
                    // missing. Nothing is released in this scan.
                    None => return,
                }
                if !self.restore_remembered(&sandboxes, &previous.remembered).await {
                    return;
                }
                previous.remembered.clear();
                self.asserted.send_if_modified(|asserted| {
                    let is_new = asserted.as_deref() != Some(epoch);
                    *asserted = Some(epoch.to_owned());
                    is_new
                });
                previous.suspected_gone = self.release_orphans(&sandboxes, &previous.suspected_gone).await;
            }
            // Without the sandbox journals it is unknown which sandboxes run. The next scan tries again.
            Err(e) => warn!(error = %error_chain(&e), "cannot read the sandbox journals"),
        }
    }

    async fn read_sandboxes(&self) -> Result<Sandboxes, Error> {
        let (root, netns_dirs) = (self.root.clone(), self.netns_dirs.clone());
        let task = "reading the sandbox journals";
        let read = blocking(task, move || Sandboxes::read(&root, &netns_dirs)).await?;
        read.map_err(|e| Error::Task { task, source: Some(Box::new(e)) })
    }

    /// Returns the allocations of this node in all blocks, except reserved and quarantined addresses.
    fn own_allocations(&self) -> impl Iterator<Item = (IpSpace, IpAddr, AddressAllocation)> {
        let allocations = self.blocks.own_allocations().into_iter();
        allocations.filter(|(_, _, entry)| !entry.is_reserved() && entry.uid != QUARANTINE_UID)
    }

    /// Whether the API server lists the pod on this node.
    fn has_pod(&self, uid: &str) -> bool {
        self.pods.find(|pod| pod.uid == uid).is_some()
    }

    /// Returns the allocations whose sandboxes are gone according to this scan.
    async fn find_orphans(&self, sandboxes: &Sandboxes) -> Vec<(IpAddr, AddressAllocation)> {
        let mut orphans = Vec::new();
        // Addresses whose container has no journal. The code below searches the network namespaces for them.
        let mut without_journal = BTreeSet::new();
        for (_, address, entry) in self.own_allocations() {
            let has_pod = self.has_pod(&entry.uid);
            match sandboxes.is_gone(&entry.container, has_pod) {
                Some(true) => orphans.push((address, entry)),
                // A node that lost its disk has no journals, but its pods still run. The address is therefore an
                // orphan only if the API server does not list the pod either.
                None if !has_pod => {
                    without_journal.insert(address);
                    orphans.push((address, entry));
                }
                Some(false) | None => {}
            }
        }
        if without_journal.is_empty() {
            return orphans;
        }
        let (addresses, netns_dirs) = (without_journal.clone(), self.netns_dirs.clone());
        let used = spawn_blocking(move || addresses_in_use(&addresses, &netns_dirs))
            .await
            .ok()
            .flatten()
            .unwrap_or(without_journal);
        orphans.retain(|(address, _)| !used.contains(address));
        orphans
    }

    async fn release_orphans(
        &self,
        sandboxes: &Sandboxes,
        suspected_gone: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let mut suspected = BTreeSet::new();
        for (container, uid) in self.membership.list_sandboxes() {
            let has_pod = self.has_pod(&uid);
            if !sandboxes.is_gone(&container, has_pod).unwrap_or(!has_pod) {
                continue;
            }
            if suspected_gone.contains(&container) {
                info!(container, "sandbox gone, partition membership removed");
                self.membership.remove_sandbox(&container, None);
            } else {
                suspected.insert(container);
            }
        }
        for (address, entry) in self.find_orphans(sandboxes).await {
            if !suspected_gone.contains(&entry.container) {
                suspected.insert(entry.container);
                continue;
            }
            let release = AddressRelease { container: entry.container.clone(), ..AddressRelease::default() };
            if self.allocator.release(release, WRITE_TIMEOUT).await {
                info!(%address, pod = entry.pod, container = entry.container, "sandbox gone, address released");
            }
        }
        suspected
    }

    /// Restores the allocations of running sandboxes that are missing from the blocks. The first scan restores them
    /// at once. Later scans restore only what two scans in a row found missing, because a DEL may be in progress.
    /// An address that already has an allocation is left alone, because a newer sandbox of the same pod may hold
    /// it. Returns the allocations to be checked again by the next scan, or `None` if the API server was
    /// unavailable.
    async fn restore_running(
        &self,
        sandboxes: &Sandboxes,
        previously_missing: Option<&BTreeSet<(IpAddr, String)>>,
    ) -> Option<BTreeSet<(IpAddr, String)>> {
        let mut missing = BTreeSet::new();
        for journal in sandboxes.attached_journals() {
            for assigned in &journal.assigned {
                for ip in &assigned.ips {
                    let Some(request) = self.restore_request(journal, assigned.attachment, ip.address) else {
                        continue;
                    };
                    let mut spaces = request.pools.iter().map(|pool| pool.space());
                    if spaces.any(|space| self.blocks.is_assigned(space, ip.address.addr())) {
                        continue;
                    }
                    let allocation = (ip.address.addr(), journal.container.clone());
                    if previously_missing.is_some_and(|before| !before.contains(&allocation)) {
                        missing.insert(allocation);
                        continue;
                    }
                    if !self.restore_address(request, ip.address.addr()).await {
                        return None;
                    }
                }
            }
        }
        Some(missing)
    }

    /// Restores the allocations that were known before etcd was restored and that are missing now, unless their sandboxes
    /// are gone. Returns `false` if the API server was unavailable.
    async fn restore_remembered(
        &self,
        sandboxes: &Sandboxes,
        remembered: &[(IpSpace, IpAddr, AddressAllocation)],
    ) -> bool {
        for (space, address, entry) in remembered {
            let has_pod = self.has_pod(&entry.uid);
            let is_gone = sandboxes.is_gone(&entry.container, has_pod).unwrap_or(!has_pod);
            if is_gone || self.blocks.is_assigned(space, *address) {
                continue;
            }
            let Some(request) = remembered_request(space, *address, entry) else { continue };
            if !self.restore_address(request, *address).await {
                return false;
            }
        }
        true
    }

    /// Writes the allocation of an address that a sandbox has. Returns `false` if the API server was unavailable.
    async fn restore_address(&self, request: AddressRequest, address: IpAddr) -> bool {
        let container = request.container.clone();
        match self.allocator.restore(format!("sandbox {container}"), vec![request]).await {
            Ok(_) => info!(%address, container, "address of a running pod restored"),
            Err(fault) if fault.code == FaultCode::ApiUnavailable => {
                warn!(%fault, "cannot restore allocations of running pods yet");
                return false;
            }
            Err(fault) => warn!(%address, container, %fault, "cannot restore the address of a running pod"),
        }
        true
    }

    /// Builds a request for exactly the address that the sandbox has. Returns `None` if the address cannot be
    /// restored: the journal lacks the network or the pod, or no pool of the network contains the address.
    fn restore_request(
        &self,
        journal: &Journal,
        attachment: usize,
        address: IpNet,
    ) -> Option<AddressRequest> {
        // An attachment without steps comes from a direct call of the IPAM plugin, which does not name the network.
        let entry = journal.entries.get(attachment).filter(|entry| !entry.attachment.steps.is_empty())?;
        let pod = journal.pod.clone()?;
        let metadata = self.pods.get(&pod.namespace, &pod.name).filter(|metadata| metadata.uid == pod.uid);
        // Default for networks without Whereabouts ranges. A Whereabouts step in the loop below overrides it,
        // with `None` if none of its ranges contains the address, for example because the address is static.
        let mut space = Some((IpSpace::default_space(), String::new()));
        for step in &entry.attachment.steps {
            if let Ok(ipam) = WhereaboutsConfig::from_plugin(&step.config) {
                let pool = ipam.pools.iter().find(|pool| pool.can_keep(address.addr()));
                space = pool.map(|pool| (pool.space().clone(), pool.name().to_owned()));
            }
        }
        let (space, name) = space?;
        let window = [(address.addr(), address.addr())];
        let pool = AddressPool::new(name, space, address.trunc(), window, &[], None).ok()?;
        Some(AddressRequest {
            pools: vec![Arc::new(pool)],
            sticky: metadata.is_some_and(|metadata| metadata.stateful),
            pod,
            interface: entry.attachment.ifname.clone(),
            ordinal: 0,
            container: journal.container.clone(),
        })
    }
}

/// Builds a request for the address of an allocation.
fn remembered_request(space: &IpSpace, address: IpAddr, entry: &AddressAllocation) -> Option<AddressRequest> {
    let (namespace, name) = entry.pod.split_once('/')?;
    let window = [(address, address)];
    let pool = AddressPool::new(entry.pool.clone(), space.clone(), address.into(), window, &[], None).ok()?;
    Some(AddressRequest {
        pools: vec![Arc::new(pool)],
        sticky: entry.sticky,
        pod: PodRef { namespace: namespace.to_owned(), name: name.to_owned(), uid: entry.uid.clone() },
        interface: entry.interface.clone(),
        ordinal: entry.ordinal,
        container: entry.container.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_add_in_progress_is_requested_again() {
        let entry = AddressAllocation {
            pod: "a/b".into(),
            uid: "u".into(),
            interface: "net1".into(),
            container: "c".into(),
            node: "n1".into(),
            ..AddressAllocation::default()
        };
        for address in ["10.0.0.5", "fd00::5"] {
            let address = address.parse().unwrap();
            let request = remembered_request(&IpSpace::network("x"), address, &entry).unwrap();
            assert!(request.pools[0].can_keep(address));
            assert_eq!(request.pools[0].space(), &IpSpace::network("x"));
            assert_eq!((request.pod.namespace.as_str(), request.pod.name.as_str()), ("a", "b"));
        }
    }
}
