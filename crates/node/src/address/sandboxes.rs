//! What lives on this node, as far as it can be seen from here.
//!
//! ```text
//!  journal of another boot                                  Gone     no namespace outlives a boot
//!  its path leads to its namespace                          Alive
//!  its path leads to another one, or to nothing             Gone     if the folder is the runtime's, and shows others
//!                                                           Missing  if that folder shows none at all: a mount may lack
//!  a path elsewhere (/proc/PID/ns/net), or unreadable       Unseen   this process may see another /proc than the runtime
//! ```
//!
//! Only `Gone` frees an address by itself. `Missing` needs the API server to have no such pod either. `Unseen` frees
//! nothing: then the runtime's DEL or GC does, or the fence of the node.

use ferroband_attach::{
    AttachmentId, Error,
    journal::{Journal, JournalFile},
};
use ferroband_kernel::{Netns, NetnsId, Root, RouteSocket, boot_id};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::read_dir,
    net::IpAddr,
    path::{Path, PathBuf},
};

/// Where runtimes keep the namespaces of their sandboxes (containerd, CRI-O, `ip netns`). The daemon has them mounted
/// under the same names.
pub fn default_netns_dirs() -> Vec<PathBuf> {
    ["/var/run/netns", "/run/netns"].map(PathBuf::from).into()
}

/// What is known of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxLiveness {
    /// Its namespace is there.
    Alive,
    /// Its namespace is certainly not there any more.
    Gone,
    /// Its namespace is not where it was, and nothing else is there either.
    Missing,
    /// Nothing can be said.
    Unknown,
}

/// A sandbox as its journal knows it.
#[derive(Clone, Debug)]
pub struct JournaledSandbox {
    /// Whether it lives.
    pub liveness: SandboxLiveness,
    /// What was done for it.
    pub journal: Journal,
}

/// The sandboxes of this node.
#[derive(Clone, Debug, Default)]
pub struct Sandboxes {
    by_container: BTreeMap<String, Vec<JournaledSandbox>>,
    /// Containers whose journals cannot be read: somebody's still, who keeps what it has.
    unreadable: BTreeSet<String>,
    /// Whether there is a journal of which not even the container is known.
    has_unidentified: bool,
}

impl Sandboxes {
    /// Look at the journals, and for their namespaces in the runtime's `folders`.
    pub fn read(root: &Root, folders: &[PathBuf]) -> Result<Self, Error> {
        let boot = boot_id(root)?;
        // Before the journals: a namespace that is made meanwhile proves nothing about them.
        let shows: BTreeSet<&PathBuf> =
            folders.iter().filter(|folder| open_namespaces(folder).next().is_some()).collect();
        let mut seen = Self::default();
        for JournalFile { stem, journal } in Journal::list(root)? {
            match (journal, AttachmentId::from_stem(&stem)) {
                (Ok(journal), _) => {
                    let life = liveness(&journal, &boot, folders, &shows);
                    let sandbox = JournaledSandbox { liveness: life, journal };
                    seen.by_container.entry(sandbox.journal.container.clone()).or_default().push(sandbox);
                }
                (Err(_), Some(key)) => drop(seen.unreadable.insert(key.container().to_owned())),
                (Err(_), None) => seen.has_unidentified = true,
            }
        }
        Ok(seen)
    }

    /// Whether nothing of the container is left, as far as that is known without its namespaces' addresses: `None` if
    /// there is no journal of it. `has_pod` is whether the API server has its pod on this node.
    pub fn is_gone(&self, container: &str, has_pod: bool) -> Option<bool> {
        if self.has_unidentified || self.unreadable.contains(container) {
            return Some(false);
        }
        let gone = |sandbox: &JournaledSandbox| match sandbox.liveness {
            SandboxLiveness::Gone => true,
            SandboxLiveness::Missing => !has_pod,
            SandboxLiveness::Alive | SandboxLiveness::Unknown => false,
        };
        self.by_container.get(container).map(|known| known.iter().all(gone))
    }

    /// Those that have all their interfaces and are not known to be gone: what they have is theirs.
    pub fn attached_journals(&self) -> impl Iterator<Item = &Journal> {
        let living = |sandbox: &&JournaledSandbox| {
            sandbox.journal.attached
                && matches!(sandbox.liveness, SandboxLiveness::Alive | SandboxLiveness::Unknown)
        };
        self.by_container.values().flatten().filter(living).map(|sandbox| &sandbox.journal)
    }
}

fn liveness(
    journal: &Journal,
    boot: &str,
    folders: &[PathBuf],
    shows: &BTreeSet<&PathBuf>,
) -> SandboxLiveness {
    if journal.boot != boot {
        return SandboxLiveness::Gone;
    }
    let path = Path::new(&journal.netns);
    let found = Netns::open(path).map(|netns| netns.id());
    let folder = folders.iter().find(|folder| path.parent() == Some(folder));
    classify(journal.netns_id, found, folder.map(|folder| shows.contains(folder)))
}

/// `shows` is whether the runtime's folder that the path is in has any namespace; `None` if it is no such folder.
fn classify(
    own: NetnsId,
    found: Result<NetnsId, ferroband_kernel::Error>,
    shows: Option<bool>,
) -> SandboxLiveness {
    use ferroband_kernel::Error::NoNetns;
    match (found, shows) {
        (Ok(id), _) if id == own => SandboxLiveness::Alive,
        (Ok(_), Some(_)) | (Err(NoNetns { .. }), Some(true)) => SandboxLiveness::Gone,
        (Err(NoNetns { .. }), Some(false)) => SandboxLiveness::Missing,
        (Ok(_) | Err(_), _) => SandboxLiveness::Unknown,
    }
}

/// The namespaces of a folder.
fn open_namespaces(folder: &Path) -> impl Iterator<Item = Netns> {
    let files = read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| Netns::open(file.path()).ok())
}

/// Which of `addresses` an interface of some namespace in `folders` has. `None` if that cannot be said: no namespace is
/// seen, or one of them cannot be looked into.
pub fn addresses_in_use(addresses: &BTreeSet<IpAddr>, folders: &[PathBuf]) -> Option<BTreeSet<IpAddr>> {
    let (mut used, mut looked) = (BTreeSet::new(), BTreeSet::new());
    for netns in folders.iter().flat_map(|folder| open_namespaces(folder)) {
        let id = netns.id();
        if !looked.insert((id.dev, id.inode)) {
            continue;
        }
        let mut route = RouteSocket::open_in(&netns).ok()?;
        for link in route.links().ok()? {
            match route.addresses(link.index) {
                Ok(found) => {
                    used.extend(found.iter().map(ipnet::IpNet::addr).filter(|a| addresses.contains(a)));
                }
                // An interface that has just gone has no address.
                Err(_) if matches!(route.link_by_index(link.index), Ok(None)) => {}
                Err(_) => return None,
            }
        }
    }
    (!looked.is_empty()).then_some(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_kernel::Error::{NoNetns, NotNetns};

    const OWN: NetnsId = NetnsId { dev: 4, inode: 1 };
    const OTHER: NetnsId = NetnsId { dev: 4, inode: 2 };

    fn nothing() -> Result<NetnsId, ferroband_kernel::Error> {
        Err(NoNetns { path: "x".into() })
    }

    #[test]
    fn only_what_is_certain_counts_as_gone() {
        assert_eq!(classify(OWN, Ok(OWN), None), SandboxLiveness::Alive);
        assert_eq!(classify(OWN, Ok(OWN), Some(true)), SandboxLiveness::Alive);
        assert_eq!(classify(OWN, Ok(OTHER), Some(true)), SandboxLiveness::Gone);
        assert_eq!(classify(OWN, nothing(), Some(true)), SandboxLiveness::Gone);
        // The folder of a mount that was forgotten is empty.
        assert_eq!(classify(OWN, nothing(), Some(false)), SandboxLiveness::Missing);
        // /proc/PID/ns/net of another PID namespace, or of a PID that was used again.
        assert_eq!(classify(OWN, Ok(OTHER), None), SandboxLiveness::Unknown);
        assert_eq!(classify(OWN, nothing(), None), SandboxLiveness::Unknown);
        // What propagation left without its mount: a file, and no namespace.
        let file = Err(NotNetns { path: "x".into() });
        assert_eq!(classify(OWN, file, Some(true)), SandboxLiveness::Unknown);
    }
}
