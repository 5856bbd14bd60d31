//! Simulated InfiniBand hardware for hosts without any, for development and evaluation. It is part of the
//! product.
//!
//! The simulation consists of a directory tree and a few network interfaces. The code that reads or changes them is
//! the same as on real hardware; only the operations of [`ferroband_kernel::Host`] and
//! [`ferroband_kernel::Hardware`], which need InfiniBand support in the kernel, are implemented differently. No
//! other code may depend on whether the hardware is simulated, except to show it to users.
//!
//! ```text
//! Profile ──Simulation::up──▶ var/lib/ferroband/sim/{sys,dev}    read by sysfs::infiniband and sysfs::pci
//!                             ibs5f0 (altname ib0)               IPoIB interface, a tap of type link/infiniband
//!                             run/ferroband/simulation.json      marker file, written last
//!                             run/ferroband/simulation.events    hardware events, for watchers
//!
//! hardware(root) ── marker? ──▶ SimulatedHost (otherwise ferroband_kernel::LinuxHost)
//!      │
//!      └─ SimMachine: the state of the hardware, under a lock. The node daemon changes it through Hardware, users
//!         through Simulation::change. Changes update the directory trees and append events.
//!
//!      pod                       node                       another node
//!   ┌──────┐ veth  ┌─────────────────────────┐ VXLAN  ┌─────────────────────────┐
//!   │ net1 ├───────┤ fbv0 ─ fbk7fff ─ fbx7fff ├────────┤ fbx7fff ─ fbk7fff ─ fbv0 ├── …
//!   └──────┘       └─────────────────────────┘        └─────────────────────────┘
//!                    one bridge and one VXLAN for each P_Key: partitions are isolated
//! ```
//!
//! Differences from real hardware: IPoIB children and the interfaces of virtual functions are Ethernet
//! (6-byte addresses) although the sysfs trees show InfiniBand. An IPoIB child is deleted with the namespace
//! of its pod, whereas the kernel moves it back to the host. The interface of a virtual function is also
//! deleted, and is recreated on the host at the next refresh. The namespace-dependent parts of the sysfs
//! trees are updated by [`ferroband_kernel::Hardware::refresh`].

mod change;
mod error;
mod events;
mod files;
mod firmware;
mod hardware;
mod identity;
mod live_netns;
mod machine;
mod marker;
mod netdev;
mod number_allocator;
mod partition;
mod profile;
#[cfg(feature = "yaml")]
mod profile_yaml;
mod report;
mod simulated_host;
mod simulation;
mod state;
mod sysfs_tree;
mod vf_veth;

pub use change::SimulationChange;
pub use error::Error;
pub use firmware::SimulatedFirmware;
pub use profile::{GpuProfile, HcaProfile, NetdevProfile, PciId, PortProfile, Profile, SimPortState};
pub use report::{AdapterReport, SimulationReport};
pub use simulated_host::SimulatedHost;
pub use simulation::{Simulation, SimulationOptions};

use ferroband_kernel::{
    Hardware, Host, LinuxHost, Root,
    firmware::{Firmware, Mstconfig},
};

/// Returns the host whose root directory is `root`: simulated if a simulation runs there, real otherwise.
/// Provides the operations that attaching an IPoIB child needs.
pub fn host(root: &Root) -> Result<Box<dyn Host>, Error> {
    Ok(hardware(root)?)
}

/// Like [`host`], but also provides the operations on adapters.
pub fn hardware(root: &Root) -> Result<Box<dyn Hardware>, Error> {
    match Simulation::find(root)? {
        Some(simulation) => Ok(Box::new(SimulatedHost::new(root, simulation))),
        None => Ok(Box::new(LinuxHost::new(root.clone()))),
    }
}

/// Returns access to the adapter firmware, simulated or real, of the host whose root directory is `root`.
pub fn firmware(root: &Root) -> Result<Box<dyn Firmware>, Error> {
    match Simulation::find(root)? {
        Some(simulation) => Ok(Box::new(SimulatedFirmware::new(root.clone(), simulation.profile))),
        None => Ok(Box::new(Mstconfig)),
    }
}
