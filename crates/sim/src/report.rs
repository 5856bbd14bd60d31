//! Status report of a simulation.

use crate::machine::SimMachine;
use crate::{Error, SimPortState, Simulation};
use ferroband_kernel::{NetnsMode, Root};
use ferroband_model::PciAddress;
use serde::Serialize;

/// Status of a running simulation and its adapters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationReport {
    /// Name of the hardware profile.
    pub profile: String,
    /// Seed from which the node's GUIDs are derived, usually its name.
    pub seed: String,
    /// Interface that connects the partitions to other nodes; `None` if they do not span nodes.
    pub uplink: Option<String>,
    /// RDMA network namespace mode: shared or exclusive.
    pub netns_mode: NetnsMode,
    /// Adapters in the order of the profile.
    pub adapters: Vec<AdapterReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterReport {
    pub pci: PciAddress,
    /// Name of the RDMA device in the profile.
    pub rdma: String,
    /// Interface names of the ports in the profile.
    pub netdevs: Vec<String>,
    pub plugged: bool,
    /// Port states, starting at port 1.
    pub ports: Vec<SimPortState>,
    /// Current number of virtual functions.
    pub vfs: usize,
    /// Maximum number of virtual functions (`sriov_totalvfs` in sysfs).
    pub total_vfs: u16,
}

impl Simulation {
    /// Returns the current state of the simulation on the host whose root directory is `root`. Returns `None`
    /// if no simulation is running.
    pub fn report(root: &Root) -> Result<Option<SimulationReport>, Error> {
        let Some(simulation) = Self::find(root)? else { return Ok(None) };
        let machine = SimMachine::open(root, &simulation)?;
        let hcas = simulation.profile.hcas.iter().zip(&machine.state().adapters);
        let adapters = hcas.map(|(hca, adapter)| AdapterReport {
            pci: hca.pci,
            rdma: hca.rdma.clone(),
            netdevs: hca.ports.iter().filter_map(|port| Some(port.netdev.as_ref()?.name.clone())).collect(),
            plugged: adapter.plugged,
            ports: adapter.ports.clone(),
            vfs: adapter.vfs.len(),
            total_vfs: hca.total_vfs,
        });
        Ok(Some(SimulationReport {
            adapters: adapters.collect(),
            netns_mode: machine.state().netns_mode,
            profile: simulation.profile.name.clone(),
            seed: simulation.seed.clone(),
            uplink: simulation.uplink.clone(),
        }))
    }
}
