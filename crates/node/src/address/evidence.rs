//! What stands in the granules for this node, held against what is here.
//!
//! ```text
//!  entry, and its sandbox is certainly gone                       ──▶ released: nothing can use the address
//!  entry without a journal, no pod of that UID on this node, and
//!  no namespace here that has the address                         ──▶ released: it was lost on the way
//!  member of a partition, without a living sandbox likewise       ──▶ ends: nothing can use the port
//!  journal of a living sandbox, and no entry                      ──▶ asserted again: the API server forgot (a restore)
//! ```
//!
//! Only what two looks in a row agree on is released: between a journal and its entry there is always an ADD or a DEL.
//! Whatever cannot be read, seen or asked is evidence of nothing.

use super::{
    AddressBlockCache, AllocatorHandle,
    sandboxes::{Sandboxes, addresses_in_use},
};
use crate::{Error, caches::PodFacts, error::error_chain, serve::PartitionManager};
use ferroband_address::{
    AddressAllocation, AddressPool, AddressRelease, AddressRequest, BlockSummary, BlockView, IpSpace,
    whereabouts::WhereaboutsConfig,
};
use ferroband_attach::journal::Journal;
use ferroband_daemon::watch_cache::WatchCache;
use ferroband_kernel::Root;
use ferroband_model::FaultCode;
use ipnet::IpNet;
use std::{collections::BTreeSet, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often is looked.
const SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// How soon again while something that lives could not be asserted: nothing new is given out until then.
const RESTORE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long one release or assertion is waited for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The UID that a quarantined address is kept under.
pub const QUARANTINE_UID: &str = "quarantine";

/// Who looks, and at what.
pub struct Evidence {
    /// The machine.
    pub root: Root,
    /// Where the runtime keeps the namespaces of its sandboxes.
    pub netns_dirs: Vec<PathBuf>,
    /// This node.
    pub node: String,
    /// What stands in the granules.
    pub blocks: Arc<AddressBlockCache>,
    /// Where it is changed.
    pub allocator: AllocatorHandle,
    /// The pods of this node.
    pub pods: Arc<WatchCache<PodFacts>>,
    /// Who is in which partition.
    pub membership: Arc<dyn PartitionManager>,
    /// Told once everything that lives here has been asserted: before that nothing new is given out.
    pub allocations_restored: watch::Sender<bool>,
}

/// What the look before found.
#[derive(Default)]
struct PreviousScan {
    /// Sandboxes that seem to be gone.
    suspected_gone: BTreeSet<String>,
    /// Addresses that seem to be forgotten; none before the first look.
    missing_allocations: Option<BTreeSet<(IpAddr, String)>>,
}

impl Evidence {
    /// Look now and then, until `stop`.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let looking = async {
            self.blocks.wait_synced().await;
            self.pods.wait_synced().await;
            let mut looks = PreviousScan::default();
            let mut restores = self.blocks.etcd_restores();
            loop {
                self.scan(&mut looks).await;
                let asserted = *self.allocations_restored.borrow();
                let pause = time::sleep(if asserted { SCAN_INTERVAL } else { RESTORE_RETRY_INTERVAL });
                tokio::select! {
                    () = pause => {}
                    // The sender is the ledger's, which is ours.
                    _ = restores.changed() => {
                        warn!("the API server has forgotten addresses; what lives here is asserted before anything new");
                        self.allocations_restored.send_replace(false);
                        looks = PreviousScan::default();
                    }
                }
            }
        };
        tokio::select! {
            () = looking => Ok(()),
            () = stop.cancelled() => Ok(()),
        }
    }

    async fn scan(&self, looks: &mut PreviousScan) {
        match self.read_sandboxes().await {
            Ok(sandboxes) => {
                match self.restore_running(&sandboxes, looks.missing_allocations.as_ref()).await {
                    Some(missed) => looks.missing_allocations = Some(missed),
                    // The API server is away: what lives here may still be unknown to it.
                    None => return,
                }
                if !*self.allocations_restored.borrow() {
                    self.blocks.with_view(BlockView::clear_lost_on_own_node);
                    self.allocations_restored.send_replace(true);
                }
                looks.suspected_gone = self.release_orphans(&sandboxes, &looks.suspected_gone).await;
            }
            // No evidence of anything; the journals may be readable again.
            Err(e) => warn!(error = %error_chain(&e), "cannot look at the journals"),
        }
    }

    async fn read_sandboxes(&self) -> Result<Sandboxes, Error> {
        let (root, namespaces) = (self.root.clone(), self.netns_dirs.clone());
        let failed = |e| Error::Task { task: "looking at the journals", source: Some(e) };
        match spawn_blocking(move || Sandboxes::read(&root, &namespaces)).await {
            Ok(Ok(sandboxes)) => Ok(sandboxes),
            // A folder that cannot be read is no evidence of anything.
            Ok(Err(e)) => Err(failed(Box::new(e))),
            Err(e) => Err(failed(Box::new(e))),
        }
    }

    /// The entries of this node, with their sandboxes.
    fn own_allocations(&self) -> Vec<(IpSpace, IpAddr, AddressAllocation)> {
        self.blocks.with_view(|view| {
            let entries = view.full_blocks().flat_map(|granule| {
                granule
                    .entries
                    .iter()
                    .map(|(offset, entry)| (granule.space.clone(), granule.address(*offset), entry.clone()))
            });
            let mine = |entry: &AddressAllocation| {
                entry.node == self.node && !entry.is_reserved() && entry.uid != QUARANTINE_UID
            };
            entries.filter(|(_, _, entry)| mine(entry)).collect()
        })
    }

    /// Whether the API server has the pod on this node.
    fn has_pod(&self, uid: &str) -> bool {
        self.pods.find(|pod| pod.uid == uid).is_some()
    }

    /// The entries whose sandboxes are gone, as far as this look can tell.
    async fn find_orphans(&self, sandboxes: &Sandboxes) -> Vec<(IpAddr, AddressAllocation)> {
        let mut lost = Vec::new();
        // Nothing here knows of them, which is not yet to say that nobody has them.
        let mut unwritten = BTreeSet::new();
        for (_, address, entry) in self.own_allocations() {
            let has_pod = self.has_pod(&entry.uid);
            match sandboxes.is_gone(&entry.container, has_pod) {
                Some(true) => lost.push((address, entry)),
                // A node that lost its disk still has its pods until they are deleted, and a while longer.
                None if !has_pod => {
                    unwritten.insert(address);
                    lost.push((address, entry));
                }
                Some(false) | None => {}
            }
        }
        if unwritten.is_empty() {
            return lost;
        }
        let (asked, namespaces) = (unwritten.clone(), self.netns_dirs.clone());
        let used = spawn_blocking(move || addresses_in_use(&asked, &namespaces))
            .await
            .ok()
            .flatten()
            .unwrap_or(unwritten);
        lost.retain(|(address, _)| !used.contains(address));
        lost
    }

    async fn release_orphans(&self, sandboxes: &Sandboxes, doubted: &BTreeSet<String>) -> BTreeSet<String> {
        let mut again = BTreeSet::new();
        for (container, uid) in self.membership.list_sandboxes() {
            let has_pod = self.has_pod(&uid);
            if !sandboxes.is_gone(&container, has_pod).unwrap_or(!has_pod) {
                continue;
            }
            if doubted.contains(&container) {
                info!(container, "its sandbox is gone; in no partition any more");
                self.membership.remove_sandbox(&container, None);
            } else {
                again.insert(container);
            }
        }
        for (address, entry) in self.find_orphans(sandboxes).await {
            if !doubted.contains(&entry.container) {
                again.insert(entry.container);
                continue;
            }
            let release = AddressRelease { container: entry.container.clone(), interface: None };
            if self.allocator.release(release, WRITE_TIMEOUT).await {
                info!(%address, pod = entry.pod, container = entry.container, "its sandbox is gone; released");
            }
        }
        again
    }

    /// Write down again what living sandboxes have and the granules do not say: at the first look at once, later what two
    /// looks agree on, for a DEL may be half done. An address that anybody has is left alone, a newer sandbox of the same
    /// pod perhaps. What is missing now comes back; `None` if the API server took something neither way.
    async fn restore_running(
        &self,
        sandboxes: &Sandboxes,
        missed: Option<&BTreeSet<(IpAddr, String)>>,
    ) -> Option<BTreeSet<(IpAddr, String)>> {
        let known: BTreeSet<IpAddr> = self
            .blocks
            .with_view(|view| view.summaries().flat_map(BlockSummary::assigned_addresses).collect());
        let mut missing = BTreeSet::new();
        for journal in sandboxes.attached_journals() {
            for assigned in &journal.assigned {
                for ip in &assigned.ips {
                    if known.contains(&ip.address.addr()) {
                        continue;
                    }
                    let place = (ip.address.addr(), journal.container.clone());
                    if missed.is_some_and(|missed| !missed.contains(&place)) {
                        missing.insert(place);
                        continue;
                    }
                    let Some(request) = self.restore_request(journal, assigned.attachment, ip.address) else {
                        continue;
                    };
                    let space = request.pools.iter().map(|pool| pool.space().clone()).collect::<Vec<_>>();
                    self.blocks.with_view(|view| {
                        space.iter().for_each(|space| view.clear_lost(space, ip.address.addr()));
                    });
                    let what = format!("sandbox {}", journal.container);
                    match self.allocator.assign(what, vec![request]).await {
                        Ok(_) => {
                            info!(address = %ip.address, container = journal.container, "asserted again");
                        }
                        Err(fault) if fault.code == FaultCode::ApiUnavailable => {
                            warn!(%fault, "what lives here cannot be asserted yet");
                            return None;
                        }
                        Err(fault) => {
                            warn!(address = %ip.address, container = journal.container, %fault, "cannot be asserted");
                        }
                    }
                }
            }
        }
        Some(missing)
    }

    /// A request for exactly the address that the sandbox has.
    fn restore_request(
        &self,
        journal: &Journal,
        attachment: usize,
        address: IpNet,
    ) -> Option<AddressRequest> {
        // Who only asked for addresses did not say in which network.
        let entry = journal.entries.get(attachment).filter(|entry| !entry.attachment.steps.is_empty())?;
        let pod = journal.pod.clone()?;
        let facts = self.pods.get(&pod.namespace, &pod.name).filter(|facts| facts.uid == pod.uid);
        // A fixed address of the configuration is recorded nowhere.
        let mut space = Some((IpSpace::default_space(), String::new()));
        for step in &entry.attachment.steps {
            if let Ok(ipam) = WhereaboutsConfig::from_plugin(&step.config) {
                let of = ipam.pools.iter().find(|pool| pool.can_keep(address.addr()));
                space = of.map(|pool| (pool.space().clone(), pool.name().to_owned()));
            }
        }
        let (space, name) = space?;
        let window = [(address.addr(), address.addr())];
        let pool = AddressPool::new(name, space, address.trunc(), window, &[], None).ok()?;
        Some(AddressRequest {
            pools: vec![Arc::new(pool)],
            sticky: facts.is_some_and(|facts| facts.stateful),
            pod,
            interface: entry.attachment.ifname.clone(),
            ordinal: 0,
            container: journal.container.clone(),
        })
    }
}
