//! The simulated machine, held still while something about it is changed.
//!
//! Whoever has a [`Machine`] has the lock. A change is made to the interfaces and the trees first and becomes
//! true when it is committed: state, then events. One that was cut off half-way (an error, a kill) is found
//! by the mark it left, and the machine is put back to what was committed last.
//!
//! ```text
//! Machine ─┬─ functions   plug, unplug, set_vf_count, bind, unbind
//!          ├─ devices     what a driver makes of a function: RDMA device, device files
//!          ├─ interfaces  and interfaces
//!          ├─ ports       port and link states, GUIDs, P_Keys, counters
//!          ├─ spaces      RDMA devices in namespaces
//!          └─ refresh     what happened behind its back
//! ```

mod devices;
mod functions;
mod interfaces;
mod ports;
mod refresh;
mod spaces;

use crate::events::{self, Event};
use crate::firmware::Cards;
use crate::identity::Identity;
use crate::numbers::CONNECTION_MANAGER;
use crate::state::{Device, State, Which};
use crate::tree::{Tree, Unit};
use crate::{Error, Profile, Simulation, files};
use ferroband_kernel::{Errno, Error as KernelError, Link, NetnsId, Root, Route};
use ferroband_model::{LinkLayer, PciAddress};
use std::fs::File;
use std::path::PathBuf;

/// The machine under the lock.
pub(crate) struct Machine {
    root: Root,
    trees: PathBuf,
    profile: Profile,
    uplink: Option<String>,
    identity: Identity,
    state: State,
    /// As it was committed last.
    committed: State,
    /// Whether something was begun that is not committed.
    begun: bool,
    route: Route,
    events: Vec<Event>,
    _lock: File,
}

impl Machine {
    /// The machine as it was left, put right if somebody was cut off.
    pub(crate) fn open(root: &Root, simulation: &Simulation) -> Result<Self, Error> {
        let lock = crate::simulation::lock(root)?;
        Self::locked(root, simulation, lock)
    }

    /// The same for whoever has the lock already.
    pub(crate) fn locked(root: &Root, simulation: &Simulation, lock: File) -> Result<Self, Error> {
        let mut machine = Self::of(root, simulation, lock)?;
        let path = machine.state_path();
        let bytes = std::fs::read(&path).map_err(|source| files::error("read", &path, source))?;
        machine.state = serde_json::from_slice(&bytes).map_err(|source| Error::Marker { path, source })?;
        machine.committed = machine.state.clone();
        if machine.mark().exists() {
            machine.write_trees()?;
            machine.ensure_interfaces()?;
            files::remove_file(&machine.mark())?;
        }
        Ok(machine)
    }

    /// The machine as it is switched on: every adapter plugged in, with its driver.
    pub(crate) fn begin(root: &Root, simulation: &Simulation, lock: File) -> Result<Self, Error> {
        files::private_directory(&root.state(""))?;
        Cards::boot(root)?;
        let mut machine = Self::of(root, simulation, lock)?;
        machine.state = State::new(&machine.profile);
        files::directory(&machine.trees)?;
        events::begin(root)?;
        machine.touch()?;
        for adapter in &mut machine.state.adapters {
            adapter.plugged = false;
        }
        machine.write_trees()?;
        for adapter in 0..machine.profile.hcas.len() {
            machine.plug(adapter)?;
        }
        Ok(machine)
    }

    fn of(root: &Root, simulation: &Simulation, lock: File) -> Result<Self, Error> {
        let mut profile = simulation.profile.clone();
        Cards::read(root)?.shape(&mut profile);
        Ok(Self {
            root: simulation.hardware(root),
            trees: root.path(&simulation.root),
            profile,
            uplink: simulation.uplink.clone(),
            identity: Identity::new(&simulation.seed),
            state: State::default(),
            committed: State::default(),
            begun: false,
            route: Route::here()?,
            events: Vec::new(),
            _lock: lock,
        })
    }

    /// Makes what was done true, and tells it.
    pub(crate) fn commit(mut self) -> Result<(), Error> {
        if self.state != self.committed {
            let path = self.state_path();
            let bytes = serde_json::to_vec(&self.state)
                .map_err(|source| Error::Marker { path: path.clone(), source })?;
            files::passing_file(&path, &bytes)?;
        }
        if self.begun {
            files::remove_file(&self.mark())?;
        }
        events::tell(&self.root, &std::mem::take(&mut self.events))
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// What the adapter of a function speaks.
    pub(crate) fn link_layer(&self, which: Which) -> LinkLayer {
        self.profile.hcas.get(which.adapter).map_or(LinkLayer::InfiniBand, |hca| hca.link_layer())
    }

    /// Says that something is going to be changed.
    fn touch(&mut self) -> Result<(), Error> {
        if !self.begun {
            files::passing_file(&self.mark(), b"")?;
            self.begun = true;
        }
        Ok(())
    }

    fn state_path(&self) -> PathBuf {
        self.trees.join("state.json")
    }

    fn mark(&self) -> PathBuf {
        self.trees.join("begun")
    }

    /// The tree of the host's namespace.
    fn tree(&self) -> Tree {
        Tree::at(self.root.sys(""))
    }

    /// Where what another namespace sees is.
    pub(crate) fn space(&self, netns: NetnsId) -> PathBuf {
        self.trees.join("netns").join(netns.inode.to_string())
    }

    /// The tree in which a device is seen.
    fn tree_of(&self, device: &Device) -> Tree {
        match device.netns {
            None => self.tree(),
            Some(netns) => Tree::at(self.space(netns).join("sys")),
        }
    }

    fn unit(&self, which: Which) -> Result<Unit<'_>, Error> {
        Unit::of(&self.profile, &self.state, self.identity, which)
            .ok_or_else(|| refused("find", "any", Errno::ENODEV))
    }

    /// The function at this address, if it is there.
    pub(crate) fn find(&self, address: PciAddress) -> Result<Which, Error> {
        let there = self.state.functions().into_iter();
        let mut found = there.filter(|which| self.unit(*which).is_ok_and(|unit| unit.address == address));
        found.next().ok_or_else(|| refused("find", address, Errno::ENODEV))
    }

    /// The adapter whose physical function is at this address, plugged in or not.
    pub(crate) fn adapter(&self, address: PciAddress) -> Result<usize, Error> {
        let found = self.profile.hcas.iter().position(|hca| hca.pci == address);
        found.ok_or_else(|| refused("find", address, Errno::ENODEV))
    }

    fn uplink(&mut self) -> Result<Option<Link>, Error> {
        let Some(name) = &self.uplink else { return Ok(None) };
        match self.route.link(name)? {
            Some(link) => Ok(Some(link)),
            None => Err(Error::NoUplink { uplink: name.clone() }),
        }
    }

    fn tell(&mut self, action: &str, subsystem: &str, place: &std::path::Path) {
        self.events.push(Event::new(action, subsystem, place));
    }

    /// Writes all trees from nothing.
    fn write_trees(&mut self) -> Result<(), Error> {
        for directory in ["sys", "dev", "netns"] {
            files::remove_directory(&self.trees.join(directory))?;
        }
        let tree = self.tree();
        tree.machine(self.state.netns_mode)?;
        let (name, node) = CONNECTION_MANAGER;
        files::directory(&self.root.dev("infiniband"))?;
        node.make(&self.root.dev("infiniband").join(name), 0o666)?;
        for gpu in &self.profile.gpus {
            tree.gpu(gpu)?;
        }
        for which in self.state.functions() {
            tree.function(&self.unit(which)?)?;
            self.write_device(which)?;
        }
        Ok(())
    }
}

/// What the kernel answers when it refuses something about a device.
fn refused(doing: &str, device: impl ToString, errno: Errno) -> Error {
    Error::Kernel(KernelError::Device {
        doing: doing.to_owned(),
        device: device.to_string(),
        errno,
        message: None,
    })
}
