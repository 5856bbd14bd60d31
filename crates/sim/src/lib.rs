//! Simulated InfiniBand hardware, for machines without any. It ships: people develop and try things out with
//! it.
//!
//! The simulation is a tree of files and a few interfaces. What reads or changes them is the same code as on
//! real hardware; only the calls of [`ferroband_kernel::Host`], which need InfiniBand in the kernel, are done
//! here another way. Nothing else may know whether the hardware is simulated, except to say so to people.
//!
//! ```text
//! Profile ──Simulation::up──▶ var/lib/ferroband/sim/{sys,dev}    what sysfs::infiniband and sysfs::pci read
//!                             ibs5f0 (altname ib0)               IPoIB, a tap that says link/infiniband
//!                             run/ferroband/simulation.json      the marker, written last: all of this is there
//!                             run/ferroband/simulation.events    what happened since, for whoever watches
//!
//! hardware(root) ── marker? ──▶ Simulated (else ferroband_kernel::Linux)
//!      │
//!      └─ Machine: the state of the hardware, under a lock. A node changes it through Hardware, people
//!         through Simulation::change; the trees show it, events tell it.
//!
//!      pod                       node                       another node
//!   ┌──────┐ veth  ┌─────────────────────────┐ VXLAN  ┌─────────────────────────┐
//!   │ net1 ├───────┤ fbv0 ─ fbk7fff ─ fbx7fff ├────────┤ fbx7fff ─ fbk7fff ─ fbv0 ├── …
//!   └──────┘       └─────────────────────────┘        └─────────────────────────┘
//!                    one bridge and one VXLAN for each P_Key: partitions do not reach each other
//! ```
//!
//! What is not as on hardware: children and the interfaces of virtual functions are Ethernet (6-byte
//! addresses) although the trees say InfiniBand; a child whose pod's namespace goes away goes with it, where
//! the kernel would hand an IPoIB child back to the host (a virtual function's interface is made again there,
//! at the next look); and what depends on the namespace in the trees follows at the next
//! [`ferroband_kernel::Hardware::refresh`].

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

/// The machine under `root`: simulated when a simulation is up there, real otherwise. What attaching takes of
/// it.
pub fn host(root: &Root) -> Result<Box<dyn Host>, Error> {
    Ok(hardware(root)?)
}

/// The same, with all that a node does to its adapters.
pub fn hardware(root: &Root) -> Result<Box<dyn Hardware>, Error> {
    match Simulation::find(root)? {
        Some(simulation) => Ok(Box::new(SimulatedHost::new(root, simulation))),
        None => Ok(Box::new(LinuxHost::new(root.clone()))),
    }
}

/// Who answers for the firmware of the machine under `root`.
pub fn firmware(root: &Root) -> Result<Box<dyn Firmware>, Error> {
    match Simulation::find(root)? {
        Some(simulation) => Ok(Box::new(SimulatedFirmware::new(root.clone(), simulation.profile))),
        None => Ok(Box::new(Mstconfig)),
    }
}
