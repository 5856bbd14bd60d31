//! The hardware of a simulated host, locked for a change.
//!
//! A [`SimMachine`] holds the lock of the simulation. A change first updates the interfaces and the simulated
//! sysfs and /dev trees. `commit` then writes the state file and the events. A change that is interrupted by
//! an error or a kill leaves a dirty marker file, and the next `open` restores the hardware to the last
//! committed state.
//!
//! ```text
//! SimMachine ─┬─ functions   plug, unplug, set_vf_count, bind, unbind
//!             ├─ devices     objects that a driver creates: RDMA device, character devices
//!             ├─ interfaces  network interfaces
//!             ├─ ports       port and link states, GUIDs, P_Keys, counters
//!             ├─ rdma_netns  RDMA devices in namespaces
//!             └─ refresh     updates from moved interfaces, deleted namespaces and traffic
//! ```

mod devices;
mod functions;
mod interfaces;
mod ports;
mod rdma_netns;
mod refresh;

use crate::events::{self, SimEvent};
use crate::firmware::FirmwareStore;
use crate::identity::SimIdentity;
use crate::number_allocator::RDMA_CM;
use crate::state::{FunctionId, SimRdmaDevice, SimState};
use crate::sysfs_tree::{FunctionView, SysfsTree};
use crate::{Error, Profile, Simulation, files, partition};
use ferroband_kernel::{Errno, Error as KernelError, Link, NetnsId, Root, RouteSocket};
use ferroband_model::{LinkLayer, PciAddress};
use std::fs::File;
use std::path::PathBuf;

/// The hardware of a simulated host. The lock of the simulation is held until this is dropped.
pub(crate) struct SimMachine {
    root: Root,
    trees: PathBuf,
    profile: Profile,
    uplink: Option<String>,
    identity: SimIdentity,
    state: SimState,
    /// The state as it was read from the state file. `commit` writes `state` only if it differs from this
    /// one.
    committed: SimState,
    /// Whether this change has created the dirty marker, a file that exists while a change is incomplete.
    dirty: bool,
    route: RouteSocket,
    events: Vec<SimEvent>,
    _lock: File,
}

impl SimMachine {
    /// Takes the lock of the simulation and reads the state file. If an earlier change was interrupted,
    /// restores the last committed state.
    pub(crate) fn open(root: &Root, simulation: &Simulation) -> Result<Self, Error> {
        let lock = crate::simulation::lock(root)?;
        Self::open_locked(root, simulation, lock)
    }

    /// Like `open`, for a caller that already holds the lock of the simulation.
    pub(crate) fn open_locked(root: &Root, simulation: &Simulation, lock: File) -> Result<Self, Error> {
        let mut machine = Self::new(root, simulation, lock)?;
        let path = machine.state_path();
        let missing =
            || files::file_error("read", &path, std::io::Error::from_raw_os_error(Errno::ENOENT as i32));
        machine.state = files::read_json(&path)?.ok_or_else(missing)?;
        machine.committed = machine.state.clone();
        if machine.dirty_marker().exists() {
            machine.write_trees()?;
            machine.ensure_interfaces()?;
            files::remove_file(&machine.dirty_marker())?;
        }
        Ok(machine)
    }

    /// Powers the host on: applies pending firmware settings, and plugs in all adapters with their drivers.
    pub(crate) fn power_on(root: &Root, simulation: &Simulation, lock: File) -> Result<Self, Error> {
        files::create_private_directory(&root.state(""))?;
        FirmwareStore::apply_pending(root)?;
        let mut machine = Self::new(root, simulation, lock)?;
        machine.state = SimState::new(&machine.profile);
        files::create_directory(&machine.trees)?;
        events::start_new_file(root)?;
        machine.mark_dirty()?;
        for adapter in &mut machine.state.adapters {
            adapter.plugged = false;
        }
        machine.write_trees()?;
        for adapter in 0..machine.profile.hcas.len() {
            machine.plug(adapter)?;
        }
        Ok(machine)
    }

    fn new(root: &Root, simulation: &Simulation, lock: File) -> Result<Self, Error> {
        let mut profile = simulation.profile.clone();
        FirmwareStore::read(root)?.apply_to(&mut profile);
        Ok(Self {
            root: simulation.hardware_root(root),
            trees: root.path(&simulation.root),
            profile,
            uplink: simulation.uplink.clone(),
            identity: SimIdentity::new(&simulation.seed),
            state: SimState::default(),
            committed: SimState::default(),
            dirty: false,
            route: RouteSocket::open()?,
            events: Vec::new(),
            _lock: lock,
        })
    }

    /// Completes a change: writes the state file, removes the dirty marker file, and appends the events.
    pub(crate) fn commit(mut self) -> Result<(), Error> {
        if self.state != self.committed {
            files::write_volatile_json(&self.state_path(), &self.state)?;
        }
        if self.dirty {
            files::remove_file(&self.dirty_marker())?;
        }
        events::append(&self.root, &std::mem::take(&mut self.events))
    }

    pub(crate) fn state(&self) -> &SimState {
        &self.state
    }

    /// Link layer of a function's adapter.
    pub(crate) fn link_layer(&self, id: FunctionId) -> LinkLayer {
        self.profile.hcas.get(id.adapter).map_or(LinkLayer::InfiniBand, |hca| hca.link_layer())
    }

    /// Creates the dirty marker, a file that exists while a change is incomplete. Must be called before the
    /// directory trees or the interfaces are changed.
    fn mark_dirty(&mut self) -> Result<(), Error> {
        if !self.dirty {
            files::write_volatile_file(&self.dirty_marker(), b"")?;
            self.dirty = true;
        }
        Ok(())
    }

    fn state_path(&self) -> PathBuf {
        self.trees.join("state.json")
    }

    fn dirty_marker(&self) -> PathBuf {
        self.trees.join("begun")
    }

    /// The sysfs tree of the host's network namespace.
    fn tree(&self) -> SysfsTree {
        SysfsTree::at(self.root.sys(""))
    }

    /// Directory with the sysfs and device trees of a network namespace other than the host's.
    pub(crate) fn netns_dir(&self, netns: NetnsId) -> PathBuf {
        self.trees.join("netns").join(netns.inode.to_string())
    }

    /// The sysfs tree of the network namespace that contains the RDMA device.
    fn tree_for(&self, device: &SimRdmaDevice) -> SysfsTree {
        match device.netns {
            None => self.tree(),
            Some(netns) => SysfsTree::at(self.netns_dir(netns).join("sys")),
        }
    }

    fn function_view(&self, id: FunctionId) -> Result<FunctionView<'_>, Error> {
        FunctionView::new(&self.profile, &self.state, self.identity, id)
            .ok_or_else(|| device_error("find", "unknown", Errno::ENODEV))
    }

    /// Finds the function at this address. Fails with ENODEV if it is not plugged in.
    pub(crate) fn find_function(&self, address: PciAddress) -> Result<FunctionId, Error> {
        let functions = self.state.functions().into_iter();
        let mut found =
            functions.filter(|id| self.function_view(*id).is_ok_and(|view| view.address == address));
        found.next().ok_or_else(|| device_error("find", address, Errno::ENODEV))
    }

    /// Finds the adapter whose physical function is at this address, plugged in or not.
    pub(crate) fn find_adapter(&self, address: PciAddress) -> Result<usize, Error> {
        let found = self.profile.hcas.iter().position(|hca| hca.pci == address);
        found.ok_or_else(|| device_error("find", address, Errno::ENODEV))
    }

    fn uplink(&mut self) -> Result<Option<Link>, Error> {
        partition::find_uplink(&mut self.route, self.uplink.as_deref())
    }

    fn push_event(&mut self, action: &str, subsystem: &str, path: &std::path::Path) {
        self.events.push(SimEvent::new(action, subsystem, path));
    }

    /// Removes the sysfs and /dev trees of all network namespaces, and writes them again from the state.
    fn write_trees(&mut self) -> Result<(), Error> {
        for directory in ["sys", "dev", "netns"] {
            files::remove_directory(&self.trees.join(directory))?;
        }
        let tree = self.tree();
        tree.write_machine(self.state.netns_mode)?;
        let (name, node) = RDMA_CM;
        files::create_directory(&self.root.dev("infiniband"))?;
        node.create(&self.root.dev("infiniband").join(name), 0o666)?;
        for gpu in &self.profile.gpus {
            tree.write_gpu(gpu)?;
        }
        for id in self.state.functions() {
            tree.write_function(&self.function_view(id)?)?;
            self.write_device(id)?;
        }
        Ok(())
    }
}

/// Creates the error that the kernel would return for a request about `device`.
fn device_error(doing: &str, device: impl ToString, errno: Errno) -> Error {
    Error::Kernel(KernelError::DeviceRequest {
        doing: doing.to_owned(),
        device: device.to_string(),
        errno,
        message: None,
    })
}
