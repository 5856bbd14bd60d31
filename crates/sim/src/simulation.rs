//! Starting and stopping a simulation.

use crate::machine::SimMachine;
use crate::{Error, Profile, events, files, marker, netdev, partition, vf_veth};
use ferroband_kernel::{Root, RouteSocket};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Version of the formats of the simulation's files. Increased when files of an older version must be
/// rewritten.
const VERSION: u32 = 3;

/// A running simulation. Serialized to the marker file `run/ferroband/simulation.json`, which exists while
/// the simulation is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulation {
    version: u32,
    /// Directory that contains the simulated sysfs and /dev trees, as a path on the host.
    pub root: PathBuf,
    /// Seed from which the node's GUIDs are derived, usually the name of the node.
    pub seed: String,
    /// Interface that connects the partitions of several nodes; `None` if partitions do not span nodes.
    pub uplink: Option<String>,
    /// The hardware profile, before firmware settings are applied to it.
    pub profile: Profile,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationOptions {
    /// Seed from which the node's GUIDs are derived. Use the node's name, so that nodes differ.
    pub seed: String,
    /// An interface of the node on a network with the other nodes (`eth0`). If it is set, partitions span
    /// nodes, and their MTU is IPoIB's 2044, or less if the MTU of this interface is too small.
    pub uplink: Option<String>,
}

impl Simulation {
    /// Returns the simulation that is running on the host whose root directory is `root`, if any.
    pub fn find(root: &Root) -> Result<Option<Self>, Error> {
        marker::read(root)
    }

    /// Starts the simulation on the host whose root directory is `root`, with interfaces in the network
    /// namespace of the calling thread. If the same simulation is already running, keeps it and recreates
    /// missing interfaces, for example after a reboot.
    pub fn up(root: &Root, profile: Profile, options: SimulationOptions) -> Result<Self, Error> {
        profile.validate()?;
        let SimulationOptions { seed, uplink } = options;
        let desired = Self { version: VERSION, root: trees_path(), seed, uplink, profile };
        let lock = lock(root)?;
        let mut route = RouteSocket::open()?;
        partition::find_uplink(&mut route, desired.uplink.as_deref())?;
        let exists = match Self::find(root)? {
            // The same simulation is running, unless its state file has been removed.
            Some(running) if running == desired => root.path(&running.root).join("state.json").is_file(),
            // Only the version of the file formats differs, so the files are rewritten.
            Some(running) if (Self { version: VERSION, ..running.clone() }) == desired => false,
            Some(running) => {
                let Self { seed, uplink, profile, .. } = running;
                return Err(Error::AlreadyUp { profile: profile.name, seed, uplink });
            }
            None => false,
        };
        if exists {
            let mut machine = SimMachine::open_locked(root, &desired, lock)?;
            machine.ensure_interfaces()?;
            machine.commit()?;
        } else if let Err(error) = desired.start(root, &mut route, lock) {
            // Return the error of the start, not one of this cleanup. `down` can remove the rest later.
            let _ = remove_interfaces_and_trees(root, &mut route);
            return Err(error);
        }
        Ok(desired)
    }

    /// Removes the IPoIB children, partitions, interfaces and directory trees of the simulation. Also
    /// succeeds if they do not exist, so it cleans up after an interrupted `up` and after a reboot.
    pub fn down(root: &Root) -> Result<(), Error> {
        let _lock = lock(root)?;
        marker::remove(root)?;
        let mut route = RouteSocket::open()?;
        partition::remove_all(&mut route)?;
        remove_interfaces_and_trees(root, &mut route)?;
        events::remove(root)
    }

    /// Returns `root` with the simulated sysfs and /dev trees instead of the host's own.
    pub fn hardware_root(&self, root: &Root) -> Root {
        root.clone().with_hardware(root.path(&self.root))
    }

    /// Removes leftovers of an earlier simulation, creates the simulated hardware, and writes the marker
    /// file.
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

/// Removes the interfaces of ports and virtual functions, then the simulated sysfs and /dev trees. The trees
/// are written before the interfaces are created and are removed after them, so they contain the name of
/// every interface, even if the marker file does not exist.
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

/// Takes the lock that serializes `up`, `down` and changes of a simulation. The lock is held until the
/// returned file is dropped.
pub(crate) fn lock(root: &Root) -> Result<File, Error> {
    let path = root.run("ferroband");
    files::create_directory(&path)?;
    // Lock the directory itself, so that no lock file remains.
    let lock = || {
        let directory = File::open(&path)?;
        directory.lock()?;
        Ok(directory)
    };
    lock().map_err(|source| files::file_error("lock", &path, source))
}
