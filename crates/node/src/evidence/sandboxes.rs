//! The sandboxes on this node and whether they still exist.
//!
//! ```text
//!  journal of another boot                             Gone     no namespace survives a reboot
//!  netns path leads to the journal's namespace         Alive
//!  netns path leads to another namespace, or nowhere   Gone     if it is in a runtime directory with other namespaces
//!                                                      Missing  if that directory has none: a mount may be missing
//!  other paths (/proc/PID/ns/net), or unreadable       Unknown  this process may see another /proc than the runtime
//! ```
//!
//! If a sandbox is `Gone`, its addresses are released. If it is `Missing`, they are released only if the API server
//! does not list the pod on this node either. If it is `Unknown`, they stay until the runtime calls DEL or GC, or
//! the node is fenced.

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

/// Directories in which container runtimes (containerd, CRI-O) and `ip netns` keep network namespaces. They are
/// mounted at the same paths in the daemon's container.
pub fn default_netns_dirs() -> Vec<PathBuf> {
    ["/var/run/netns", "/run/netns"].map(PathBuf::from).into()
}

/// Whether a sandbox still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxLiveness {
    /// The network namespace exists at the path in the sandbox journal.
    Alive,
    /// The network namespace certainly no longer exists.
    Gone,
    /// The path in the journal does not exist, and its directory contains no namespace at all. A mount may be
    /// missing.
    Missing,
    /// The path in the journal does not prove whether the namespace still exists.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct JournaledSandbox {
    pub liveness: SandboxLiveness,
    pub journal: Journal,
}

/// The sandboxes of this node, from their journals.
#[derive(Clone, Debug, Default)]
pub struct Sandboxes {
    by_container: BTreeMap<String, Vec<JournaledSandbox>>,
    /// Containers with an unreadable journal. They keep their addresses.
    unreadable: BTreeSet<String>,
    /// Whether there is an unreadable journal whose file name does not tell the container. Then no container counts
    /// as gone.
    has_unidentified: bool,
}

impl Sandboxes {
    /// Reads all journals and determines whether their sandboxes still exist. `netns_dirs` are the directories in
    /// which the runtime keeps network namespaces.
    pub fn read(root: &Root, netns_dirs: &[PathBuf]) -> Result<Self, Error> {
        let boot = boot_id(root)?;
        // Check the directories before the journals. A namespace created after a journal was checked does not prove
        // that the directory was mounted at that time.
        let populated: BTreeSet<&PathBuf> =
            netns_dirs.iter().filter(|netns_dir| open_namespaces(netns_dir).next().is_some()).collect();
        let mut sandboxes = Self::default();
        for JournalFile { stem, journal } in Journal::list(root)? {
            match (journal, AttachmentId::from_stem(&stem)) {
                (Ok(journal), _) => {
                    let liveness = liveness(&journal, &boot, netns_dirs, &populated);
                    let sandbox = JournaledSandbox { liveness, journal };
                    sandboxes
                        .by_container
                        .entry(sandbox.journal.container.clone())
                        .or_default()
                        .push(sandbox);
                }
                (Err(_), Some(id)) => drop(sandboxes.unreadable.insert(id.container().to_owned())),
                (Err(_), None) => sandboxes.has_unidentified = true,
            }
        }
        Ok(sandboxes)
    }

    /// Whether every sandbox of the container is gone, judged by the sandbox journals only. Returns `None` if
    /// the container has no journal. `has_pod` says whether the API server lists the pod on this node.
    pub fn is_gone(&self, container: &str, has_pod: bool) -> Option<bool> {
        if self.has_unidentified || self.unreadable.contains(container) {
            return Some(false);
        }
        let is_gone = |sandbox: &JournaledSandbox| match sandbox.liveness {
            SandboxLiveness::Gone => true,
            SandboxLiveness::Missing => !has_pod,
            SandboxLiveness::Alive | SandboxLiveness::Unknown => false,
        };
        self.by_container.get(container).map(|known| known.iter().all(is_gone))
    }

    /// Journals of the sandboxes that have all their interfaces and are not known to be gone. The addresses
    /// in them are in use.
    pub fn attached_journals(&self) -> impl Iterator<Item = &Journal> {
        let may_run = |sandbox: &&JournaledSandbox| {
            sandbox.journal.attached
                && matches!(sandbox.liveness, SandboxLiveness::Alive | SandboxLiveness::Unknown)
        };
        self.by_container.values().flatten().filter(may_run).map(|sandbox| &sandbox.journal)
    }
}

fn liveness(
    journal: &Journal,
    boot: &str,
    netns_dirs: &[PathBuf],
    populated: &BTreeSet<&PathBuf>,
) -> SandboxLiveness {
    if journal.boot != boot {
        return SandboxLiveness::Gone;
    }
    let path = Path::new(&journal.netns);
    let found = Netns::open(path).map(|netns| netns.id());
    let netns_dir = netns_dirs.iter().find(|netns_dir| path.parent() == Some(netns_dir));
    classify(journal.netns_id, found, netns_dir.map(|netns_dir| populated.contains(netns_dir)))
}

/// Compares the network namespace in the journal (`own`) with the one found at its path. `populated` is
/// `None` if the path is not in a runtime directory. Otherwise it says whether that directory contains at
/// least one namespace.
fn classify(
    own: NetnsId,
    found: Result<NetnsId, ferroband_kernel::Error>,
    populated: Option<bool>,
) -> SandboxLiveness {
    use ferroband_kernel::Error::NoNetns;
    match (found, populated) {
        (Ok(id), _) if id == own => SandboxLiveness::Alive,
        (Ok(_), Some(_)) | (Err(NoNetns { .. }), Some(true)) => SandboxLiveness::Gone,
        (Err(NoNetns { .. }), Some(false)) => SandboxLiveness::Missing,
        (Ok(_) | Err(_), _) => SandboxLiveness::Unknown,
    }
}

fn open_namespaces(netns_dir: &Path) -> impl Iterator<Item = Netns> {
    let files = read_dir(netns_dir).into_iter().flatten().flatten();
    files.filter_map(|file| Netns::open(file.path()).ok())
}

/// Returns those of `addresses` that are on an interface in a network namespace in `netns_dirs`. Returns
/// `None` if these directories contain no namespace, or one that cannot be inspected.
pub fn addresses_in_use(addresses: &BTreeSet<IpAddr>, netns_dirs: &[PathBuf]) -> Option<BTreeSet<IpAddr>> {
    let (mut used, mut visited) = (BTreeSet::new(), BTreeSet::new());
    for netns in netns_dirs.iter().flat_map(|netns_dir| open_namespaces(netns_dir)) {
        let id = netns.id();
        if !visited.insert((id.dev, id.inode)) {
            continue;
        }
        let mut route = RouteSocket::open_in(&netns).ok()?;
        for link in route.links().ok()? {
            match route.addresses(link.index) {
                Ok(found) => {
                    used.extend(found.iter().map(ipnet::IpNet::addr).filter(|a| addresses.contains(a)));
                }
                // The interface was removed in the meantime, so it has no address.
                Err(_) if matches!(route.link_by_index(link.index), Ok(None)) => {}
                Err(_) => return None,
            }
        }
    }
    (!visited.is_empty()).then_some(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_kernel::Error::{NoNetns, NotNetns};

    const OWN: NetnsId = NetnsId { dev: 4, inode: 1 };
    const OTHER: NetnsId = NetnsId { dev: 4, inode: 2 };

    fn no_netns() -> Result<NetnsId, ferroband_kernel::Error> {
        Err(NoNetns { path: "x".into() })
    }

    #[test]
    fn sandbox_is_gone_only_if_that_is_certain() {
        assert_eq!(classify(OWN, Ok(OWN), None), SandboxLiveness::Alive);
        assert_eq!(classify(OWN, Ok(OWN), Some(true)), SandboxLiveness::Alive);
        assert_eq!(classify(OWN, Ok(OTHER), Some(true)), SandboxLiveness::Gone);
        assert_eq!(classify(OWN, no_netns(), Some(true)), SandboxLiveness::Gone);
        // A directory without namespaces may be a missing mount, so the sandbox is not known to be gone.
        assert_eq!(classify(OWN, no_netns(), Some(false)), SandboxLiveness::Missing);
        // Another namespace, or none, at a path outside the runtime directories proves nothing:
        // /proc/PID/ns/net may belong to another PID namespace or a reused PID.
        assert_eq!(classify(OWN, Ok(OTHER), None), SandboxLiveness::Unknown);
        assert_eq!(classify(OWN, no_netns(), None), SandboxLiveness::Unknown);
        // A plain file without the namespace mount proves nothing: the mount may not have been propagated.
        let file = Err(NotNetns { path: "x".into() });
        assert_eq!(classify(OWN, file, Some(true)), SandboxLiveness::Unknown);
    }
}
