//! What the simulated machine is like now, for people.

use crate::machine::SimMachine;
use crate::{Error, SimPortState, Simulation};
use ferroband_kernel::{NetnsMode, Root};
use ferroband_model::PciAddress;
use serde::Serialize;

/// The simulation that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationReport {
    /// The name of its profile.
    pub profile: String,
    /// What its GUIDs are made from.
    pub seed: String,
    /// The interface that joins it to other machines.
    pub uplink: Option<String>,
    /// How RDMA devices and network namespaces go together.
    pub netns_mode: NetnsMode,
    /// The adapters, as the profile orders them.
    pub adapters: Vec<AdapterReport>,
}

/// An adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterReport {
    /// Its PCI address.
    pub pci: PciAddress,
    /// What the profile calls its RDMA device.
    pub rdma: String,
    /// What the profile calls the interfaces of its ports.
    pub netdevs: Vec<String>,
    /// Whether it is in its slot.
    pub plugged: bool,
    /// What its ports are like.
    pub ports: Vec<SimPortState>,
    /// How many virtual functions it has.
    pub vfs: usize,
    /// How many it can have.
    pub total_vfs: u16,
}

impl Simulation {
    /// What the simulation on the machine under `root` is like now; nothing when none is up.
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
