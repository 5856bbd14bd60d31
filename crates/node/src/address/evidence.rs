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
    Desk, Ledger,
    sandboxes::{Sandboxes, in_use},
};
use crate::{Error, caches::PodFacts, error::chain, serve::Membership};
use ferroband_address::{Entry, Outline, Pool, Release, Request, Space, View, whereabouts::Whereabouts};
use ferroband_attach::journal::Journal;
use ferroband_daemon::watching::Cache;
use ferroband_kernel::Root;
use ferroband_model::FaultCode;
use ipnet::IpNet;
use std::{collections::BTreeSet, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often is looked.
const OFTEN: Duration = Duration::from_secs(10);
/// How soon again while something that lives could not be asserted: nothing new is given out until then.
const SOON: Duration = Duration::from_secs(1);
/// How long one release or assertion is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The UID that a quarantined address is kept under.
pub const QUARANTINE: &str = "quarantine";

/// Who looks, and at what.
pub struct Evidence {
    /// The machine.
    pub root: Root,
    /// Where the runtime keeps the namespaces of its sandboxes.
    pub namespaces: Vec<PathBuf>,
    /// This node.
    pub node: String,
    /// What stands in the granules.
    pub ledger: Arc<Ledger>,
    /// Where it is changed.
    pub desk: Desk,
    /// The pods of this node.
    pub pods: Arc<Cache<PodFacts>>,
    /// Who is in which partition.
    pub membership: Arc<dyn Membership>,
    /// Told once everything that lives here has been asserted: before that nothing new is given out.
    pub asserted: watch::Sender<bool>,
}

/// What the look before found.
#[derive(Default)]
struct Looks {
    /// Sandboxes that seem to be gone.
    doubted: BTreeSet<String>,
    /// Addresses that seem to be forgotten; none before the first look.
    missed: Option<BTreeSet<(IpAddr, String)>>,
}

impl Evidence {
    /// Look now and then, until `stop`.
    pub async fn keep_confirmed(self, stop: CancellationToken) -> Result<(), Error> {
        let looking = async {
            self.ledger.complete().await;
            self.pods.complete().await;
            let mut looks = Looks::default();
            let mut restores = self.ledger.restores();
            loop {
                self.look(&mut looks).await;
                let asserted = *self.asserted.borrow();
                let pause = time::sleep(if asserted { OFTEN } else { SOON });
                tokio::select! {
                    () = pause => {}
                    // The sender is the ledger's, which is ours.
                    _ = restores.changed() => {
                        warn!("the API server has forgotten addresses; what lives here is asserted before anything new");
                        self.asserted.send_replace(false);
                        looks = Looks::default();
                    }
                }
            }
        };
        tokio::select! {
            () = looking => Ok(()),
            () = stop.cancelled() => Ok(()),
        }
    }

    async fn look(&self, looks: &mut Looks) {
        match self.sandboxes().await {
            Ok(sandboxes) => {
                match self.assert_living(&sandboxes, looks.missed.as_ref()).await {
                    Some(missed) => looks.missed = Some(missed),
                    // The API server is away: what lives here may still be unknown to it.
                    None => return,
                }
                if !*self.asserted.borrow() {
                    self.ledger.plan(View::recalled);
                    self.asserted.send_replace(true);
                }
                looks.doubted = self.release_lost(&sandboxes, &looks.doubted).await;
            }
            // No evidence of anything; the journals may be readable again.
            Err(e) => warn!(error = %chain(&e), "cannot look at the journals"),
        }
    }

    async fn sandboxes(&self) -> Result<Sandboxes, Error> {
        let (root, namespaces) = (self.root.clone(), self.namespaces.clone());
        let failed = |e| Error::Task { task: "looking at the journals", source: Some(e) };
        match spawn_blocking(move || Sandboxes::look(&root, &namespaces)).await {
            Ok(Ok(sandboxes)) => Ok(sandboxes),
            // A folder that cannot be read is no evidence of anything.
            Ok(Err(e)) => Err(failed(Box::new(e))),
            Err(e) => Err(failed(Box::new(e))),
        }
    }

    /// The entries of this node, with their sandboxes.
    fn own(&self) -> Vec<(Space, IpAddr, Entry)> {
        self.ledger.plan(|view| {
            let entries = view.open().flat_map(|granule| {
                granule
                    .entries
                    .iter()
                    .map(|(offset, entry)| (granule.space.clone(), granule.address(*offset), entry.clone()))
            });
            let mine =
                |entry: &Entry| entry.node == self.node && !entry.is_waiting() && entry.uid != QUARANTINE;
            entries.filter(|(_, _, entry)| mine(entry)).collect()
        })
    }

    /// Whether the API server has the pod on this node.
    fn has_pod(&self, uid: &str) -> bool {
        self.pods.find(|pod| pod.uid == uid).is_some()
    }

    /// The entries whose sandboxes are gone, as far as this look can tell.
    async fn lost(&self, sandboxes: &Sandboxes) -> Vec<(IpAddr, Entry)> {
        let mut lost = Vec::new();
        // Nothing here knows of them, which is not yet to say that nobody has them.
        let mut unwritten = BTreeSet::new();
        for (_, address, entry) in self.own() {
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
        let (asked, namespaces) = (unwritten.clone(), self.namespaces.clone());
        let used =
            spawn_blocking(move || in_use(&asked, &namespaces)).await.ok().flatten().unwrap_or(unwritten);
        lost.retain(|(address, _)| !used.contains(address));
        lost
    }

    async fn release_lost(&self, sandboxes: &Sandboxes, doubted: &BTreeSet<String>) -> BTreeSet<String> {
        let mut again = BTreeSet::new();
        for (container, uid) in self.membership.held() {
            let has_pod = self.has_pod(&uid);
            if !sandboxes.is_gone(&container, has_pod).unwrap_or(!has_pod) {
                continue;
            }
            if doubted.contains(&container) {
                info!(container, "its sandbox is gone; in no partition any more");
                self.membership.end(&container, None);
            } else {
                again.insert(container);
            }
        }
        for (address, entry) in self.lost(sandboxes).await {
            if !doubted.contains(&entry.container) {
                again.insert(entry.container);
                continue;
            }
            let release = Release { container: entry.container.clone(), interface: None };
            if self.desk.release(release, PATIENCE).await {
                info!(%address, pod = entry.pod, container = entry.container, "its sandbox is gone; released");
            }
        }
        again
    }

    /// Write down again what living sandboxes have and the granules do not say: at the first look at once, later what two
    /// looks agree on, for a DEL may be half done. An address that anybody has is left alone, a newer sandbox of the same
    /// pod perhaps. What is missing now comes back; `None` if the API server took something neither way.
    async fn assert_living(
        &self,
        sandboxes: &Sandboxes,
        missed: Option<&BTreeSet<(IpAddr, String)>>,
    ) -> Option<BTreeSet<(IpAddr, String)>> {
        let known: BTreeSet<IpAddr> =
            self.ledger.plan(|view| view.outlines().flat_map(Outline::assigned).collect());
        let mut missing = BTreeSet::new();
        for journal in sandboxes.attached() {
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
                    let Some(request) = self.request(journal, assigned.attachment, ip.address) else {
                        continue;
                    };
                    let space = request.pools.iter().map(|pool| pool.space().clone()).collect::<Vec<_>>();
                    self.ledger.plan(|view| {
                        space.iter().for_each(|space| view.recall(space, ip.address.addr()));
                    });
                    let what = format!("sandbox {}", journal.container);
                    match self.desk.assign(what, vec![request]).await {
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
    fn request(&self, journal: &Journal, attachment: usize, address: IpNet) -> Option<Request> {
        // Who only asked for addresses did not say in which network.
        let entry = journal.entries.get(attachment).filter(|entry| !entry.attachment.steps.is_empty())?;
        let pod = journal.pod.clone()?;
        let facts = self.pods.get(&pod.namespace, &pod.name).filter(|facts| facts.uid == pod.uid);
        // A fixed address of the configuration is recorded nowhere.
        let mut space = Some((Space::default_space(), String::new()));
        for step in &entry.attachment.steps {
            if let Ok(ipam) = Whereabouts::of_plugin(&step.config) {
                let of = ipam.pools.iter().find(|pool| pool.keeps(address.addr()));
                space = of.map(|pool| (pool.space().clone(), pool.name().to_owned()));
            }
        }
        let (space, name) = space?;
        let window = [(address.addr(), address.addr())];
        let pool = Pool::new(name, space, address.trunc(), window, &[], None).ok()?;
        Some(Request {
            pools: vec![Arc::new(pool)],
            sticky: facts.is_some_and(|facts| facts.stateful),
            pod,
            interface: entry.attachment.ifname.clone(),
            ordinal: 0,
            container: journal.container.clone(),
        })
    }
}
