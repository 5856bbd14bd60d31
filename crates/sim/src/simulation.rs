//! Bringing simulated hardware up and taking it down.

use crate::machine::SimMachine;
use crate::{Error, Profile, events, files, marker, netdev, partition, sysfs_tree, vf_veth};
use ferroband_kernel::{Root, RouteSocket};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The form of the files; raised when an older one must be written anew.
const VERSION: u32 = 3;

/// A simulation that is up; also the content of its marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulation {
    version: u32,
    /// The directory of the simulated trees, as the host sees it.
    pub root: PathBuf,
    /// What the node's numbers are made from; its name, as a rule.
    pub seed: String,
    /// The interface that joins the partitions of several nodes.
    pub uplink: Option<String>,
    /// The hardware.
    pub profile: Profile,
}

/// How to simulate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationOptions {
    /// What the node's GUIDs are made from: its name, so that nodes differ.
    pub seed: String,
    /// An interface of the node on a network with the other nodes (`eth0`). Partitions then reach across
    /// nodes; their MTU is IPoIB's 2044 or, if less, what fits into this interface's.
    pub uplink: Option<String>,
}

impl Simulation {
    /// The simulation that is up on the machine under `root`.
    pub fn find(root: &Root) -> Result<Option<Self>, Error> {
        marker::read(root)
    }

    /// Brings the hardware up on the machine under `root`, its interfaces in this thread's network namespace.
    /// What is up already stays as it is; what a reboot took is made again.
    pub fn up(root: &Root, profile: Profile, options: SimulationOptions) -> Result<Self, Error> {
        profile.validate()?;
        let SimulationOptions { seed, uplink } = options;
        let wanted = Self { version: VERSION, root: trees_path(), seed, uplink, profile };
        let lock = lock(root)?;
        let mut route = RouteSocket::open()?;
        wanted.check_uplink(&mut route)?;
        let there = match Self::find(root)? {
            // Unless somebody has removed the trees.
            Some(running) if running == wanted => root.path(&running.root).join("state.json").is_file(),
            // Of another version only: written anew.
            Some(running) if (Self { version: VERSION, ..running.clone() }) == wanted => false,
            Some(running) => {
                let Self { seed, uplink, profile, .. } = running;
                return Err(Error::AlreadyUp { profile: profile.name, seed, uplink });
            }
            None => false,
        };
        if there {
            let mut machine = SimMachine::open_locked(root, &wanted, lock)?;
            machine.ensure_interfaces()?;
            machine.commit()?;
        } else if let Err(error) = wanted.start(root, &mut route, lock) {
            // What was wrong first is what counts; what cannot be taken back now, `down` finds later.
            let _ = remove_interfaces_and_trees(root, &mut route);
            return Err(error);
        }
        Ok(wanted)
    }

    /// Takes everything down: children, partitions, interfaces, trees. What is not there is taken down, so
    /// this also cleans up after an `up` that was killed, and after a reboot.
    pub fn down(root: &Root) -> Result<(), Error> {
        let _lock = lock(root)?;
        marker::remove(root)?;
        let mut route = RouteSocket::open()?;
        partition::remove_all(&mut route)?;
        remove_interfaces_and_trees(root, &mut route)?;
        events::remove(root)
    }

    /// `root`, with the simulated hardware's trees in place of the machine's own.
    pub fn hardware_root(&self, root: &Root) -> Root {
        root.clone().with_hardware(root.path(&self.root))
    }

    /// The MTU that children of IPoIB interfaces get: 2044, or what the uplink has room for.
    pub fn child_mtu(&self) -> Result<u32, Error> {
        let Some(uplink) = &self.uplink else { return Ok(sysfs_tree::IPOIB_MTU) };
        match RouteSocket::open()?.link(uplink)? {
            Some(link) => Ok(partition::mtu(&link)),
            None => Err(Error::NoUplink { uplink: uplink.clone() }),
        }
    }

    fn check_uplink(&self, route: &mut RouteSocket) -> Result<(), Error> {
        match &self.uplink {
            Some(uplink) if route.link(uplink)?.is_none() => Err(Error::NoUplink { uplink: uplink.clone() }),
            _ => Ok(()),
        }
    }

    /// From nothing, or from what was left of another time, to all of it with the marker.
    fn start(&self, root: &Root, route: &mut RouteSocket, lock: File) -> Result<(), Error> {
        marker::remove(root)?;
        remove_interfaces_and_trees(root, route)?;
        SimMachine::power_on(root, self, lock)?.commit()?;
        marker::write(root, self)
    }
}

fn trees_path() -> PathBuf {
    Root::default().state("sim")
}

/// Takes the interfaces of the ports and the wires away, then the trees. The trees are written before the
/// interfaces are made and removed after them, so they know every name, with or without a marker.
fn remove_interfaces_and_trees(root: &Root, route: &mut RouteSocket) -> Result<(), Error> {
    let trees = root.path(trees_path());
    for name in directory_names(&trees.join("sys/class/net"))? {
        netdev::remove(route, &name)?;
    }
    for link in route.links()?.into_iter().filter(|link| link.name.starts_with("fbf")) {
        vf_veth::remove(route, &link.name)?;
    }
    files::remove_directory(&trees)
}

fn directory_names(directory: &Path) -> Result<Vec<String>, Error> {
    match std::fs::read_dir(directory) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()
            .map_err(|source| files::file_error("list", directory, source)),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(files::file_error("list", directory, source)),
    }
}

/// One `up` or `down` at a time; held until dropped.
pub(crate) fn lock(root: &Root) -> Result<File, Error> {
    let path = root.run("ferroband");
    files::create_directory(&path)?;
    // The directory itself, so that nothing is left behind.
    let lock = || {
        let directory = File::open(&path)?;
        directory.lock()?;
        Ok(directory)
    };
    lock().map_err(|source| files::file_error("lock", &path, source))
}
