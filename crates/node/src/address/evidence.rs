//! What stands in the granules for this node, held against what is here.
//!
//! ```text
//!  entry, and its sandbox's namespace is gone                   ──▶ released: nothing can use the address
//!  entry without a journal, and no pod of that UID on this node ──▶ released: it was lost on the way
//!  member of a partition, likewise                             ──▶ ends: nothing can use the port
//!  journal of a living sandbox, and no entry                    ──▶ asserted again: the API server forgot (a restore)
//! ```
//!
//! Only what two looks in a row agree on is released: between a journal and its entry there is always an ADD or a DEL.

use super::{Desk, Ledger};
use crate::{Error, caches::PodFacts, error::chain, serve::Membership};
use ferroband_address::{Entry, Pool, Release, Request, Space, whereabouts::Whereabouts};
use ferroband_attach::journal::{Found, Journal};
use ferroband_daemon::watching::Cache;
use ferroband_kernel::{Netns, Root, boot_id};
use ipnet::IpNet;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often is looked.
const OFTEN: Duration = Duration::from_secs(10);
/// How long one release or assertion is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The UID that a quarantined address is kept under.
pub const QUARANTINE: &str = "quarantine";

/// Who looks, and at what.
pub struct Evidence {
    /// The machine.
    pub root: Root,
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

/// A sandbox as its journal knows it.
struct Sandbox {
    alive: bool,
    attached: bool,
    journal: Journal,
}

/// What the look before found.
#[derive(Default)]
struct Looks {
    /// Sandboxes that seem to be gone.
    doubted: BTreeSet<String>,
    /// Addresses that seem to be forgotten; none before the first look.
    missed: Option<BTreeSet<(IpAddr, String)>>,
}

/// Whether the sandbox's namespace is certainly gone. A path whose folder this process does not see says nothing.
fn is_gone(journal: &Journal) -> bool {
    let path = Path::new(&journal.netns);
    let seen = path.parent().is_some_and(|folder| {
        ["/run/netns", "/var/run/netns"].iter().any(|known| folder == Path::new(known)) && folder.is_dir()
    });
    match Netns::open(path) {
        Ok(netns) => netns.id() != journal.netns_id,
        Err(ferroband_kernel::Error::NoNetns { .. }) => seen,
        Err(_) => false,
    }
}

impl Evidence {
    /// Look now and then, until `stop`.
    pub async fn keep_confirmed(self, stop: CancellationToken) -> Result<(), Error> {
        let looking = async {
            self.ledger.complete().await;
            self.pods.complete().await;
            let mut looks = Looks::default();
            loop {
                self.look(&mut looks).await;
                time::sleep(OFTEN).await;
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
                looks.missed = Some(self.assert_living(&sandboxes, looks.missed.as_ref()).await);
                self.asserted.send_replace(true);
                looks.doubted = self.release_lost(&sandboxes, &looks.doubted).await;
            }
            // No evidence of anything; the journals may be readable again.
            Err(e) => warn!(error = %chain(&e), "cannot look at the journals"),
        }
    }

    async fn sandboxes(&self) -> Result<BTreeMap<String, Vec<Sandbox>>, Error> {
        let root = self.root.clone();
        let read = spawn_blocking(move || -> Result<_, ferroband_attach::Error> {
            let boot = boot_id(&root)?;
            let mut sandboxes: BTreeMap<String, Vec<Sandbox>> = BTreeMap::new();
            for Found { journal, .. } in Journal::all(&root)? {
                // One that cannot be read is somebody's still: whoever it is keeps what it has.
                let Ok(journal) = journal else { continue };
                let alive = journal.boot == boot && !is_gone(&journal);
                let sandbox = Sandbox { alive, attached: journal.attached, journal };
                sandboxes.entry(sandbox.journal.container.clone()).or_default().push(sandbox);
            }
            Ok(sandboxes)
        });
        let failed = |e| Error::Task { task: "looking at the journals", source: Some(e) };
        match read.await {
            Ok(Ok(sandboxes)) => Ok(sandboxes),
            // A folder that cannot be read is no evidence of anything.
            Ok(Err(e)) => Err(failed(Box::new(e))),
            Err(e) => Err(failed(Box::new(e))),
        }
    }

    /// The entries of this node, with their sandboxes.
    fn own(&self) -> Vec<(Space, IpAddr, Entry)> {
        self.ledger.plan(|view| {
            let entries = view.iter().flat_map(|(granule, _)| {
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

    async fn release_lost(
        &self,
        sandboxes: &BTreeMap<String, Vec<Sandbox>>,
        doubted: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let mut again = BTreeSet::new();
        let lost = |container: &str, uid: &str| match sandboxes.get(container) {
            Some(known) => known.iter().all(|sandbox| !sandbox.alive),
            // A node that lost its disk still has its pods until they are deleted.
            None => self.pods.find(|pod| pod.uid == uid).is_none(),
        };
        for (container, uid) in self.membership.held() {
            if !lost(&container, &uid) {
                continue;
            }
            if doubted.contains(&container) {
                info!(container, "its sandbox is gone; in no partition any more");
                self.membership.end(&container, None);
            } else {
                again.insert(container);
            }
        }
        for (_, address, entry) in self.own() {
            if !lost(&entry.container, &entry.uid) {
                continue;
            }
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
    /// pod perhaps. What is missing now comes back.
    async fn assert_living(
        &self,
        sandboxes: &BTreeMap<String, Vec<Sandbox>>,
        missed: Option<&BTreeSet<(IpAddr, String)>>,
    ) -> BTreeSet<(IpAddr, String)> {
        let known: BTreeSet<IpAddr> = self.ledger.plan(|view| {
            let granules = view.iter().map(|(granule, _)| granule);
            granules
                .flat_map(|granule| granule.entries.keys().map(|offset| granule.address(*offset)))
                .collect()
        });
        let mut missing = BTreeSet::new();
        for sandbox in sandboxes.values().flatten().filter(|sandbox| sandbox.alive && sandbox.attached) {
            let journal = &sandbox.journal;
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
                    let what = format!("sandbox {}", journal.container);
                    match self.desk.assign(what, vec![request]).await {
                        Ok(_) => {
                            info!(address = %ip.address, container = journal.container, "asserted again");
                        }
                        Err(fault) => {
                            warn!(address = %ip.address, container = journal.container, %fault, "cannot be asserted");
                        }
                    }
                }
            }
        }
        missing
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
