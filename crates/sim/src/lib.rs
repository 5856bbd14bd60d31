//! Simulated InfiniBand hardware, for machines without any. It ships: people develop and try things out with it.
//!
//! The simulation is a tree of files and a few interfaces. What reads or changes them is the same code as on
//! real hardware; only the calls of [`ferroband_kernel::Host`], which need InfiniBand in the kernel, are done
//! here another way. Nothing else may know whether the hardware is simulated, except to say so to people.
//!
//! ```text
//! Profile ──Simulation::up──▶ var/lib/ferroband/sim/{sys,dev}    what sysfs::infiniband and sysfs::pci read
//!                             ibs5f0 (altname ib0)               the IPoIB interface, a tap that says link/infiniband
//!                             run/ferroband/simulation.json      the marker, written last: all of this is there
//!
//! host(root) ── marker? ──▶ Simulated (else ferroband_kernel::Linux)
//!
//!      pod                       node                       another node
//!   ┌──────┐ veth  ┌─────────────────────────┐ VXLAN  ┌─────────────────────────┐
//!   │ net1 ├───────┤ fbv0 ─ fbk7fff ─ fbx7fff ├────────┤ fbx7fff ─ fbk7fff ─ fbv0 ├── …
//!   └──────┘       └─────────────────────────┘        └─────────────────────────┘
//!                    one bridge and one VXLAN for each P_Key: partitions do not reach each other
//! ```
//!
//! What is not as on hardware: children are Ethernet (6-byte addresses), and a child whose pod's namespace goes
//! away goes with it, where the kernel would hand an IPoIB child back to the host.

mod chardev;
mod error;
mod files;
mod identity;
mod marker;
mod netdev;
mod partition;
mod profile;
mod simulated;
mod simulation;
mod tree;

pub use error::Error;
pub use profile::{Hca, Netdev, PciId, Port, PortState, Profile};
pub use simulated::Simulated;
pub use simulation::{Options, Simulation};

use ferroband_kernel::{Host, Linux, Root};

/// The machine under `root`: simulated when a simulation is up there, real otherwise.
pub fn host(root: &Root) -> Result<Box<dyn Host>, Error> {
    match Simulation::find(root)? {
        Some(simulation) => Ok(Box::new(Simulated::new(root, simulation))),
        None => Ok(Box::new(Linux::new(root.clone()))),
    }
}
