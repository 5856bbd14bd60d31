//! Manual changes to simulated hardware: unplug adapters, change port states, create virtual functions.

use crate::machine::SimMachine;
use crate::state::FunctionId;
use crate::{Error, SimPortState, Simulation};
use ferroband_kernel::{NetnsMode, Root};
use ferroband_model::{Guid, LinkLayer, PKey, PciAddress};
use std::collections::BTreeMap;

/// A change to simulated hardware. A device is identified by its PCI address, RDMA device or interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationChange {
    /// Unplugs an adapter with its virtual functions.
    Unplug { device: String },
    /// Plugs an unplugged adapter in again.
    Replug {
        /// The adapter. While it is unplugged, it is identified by its PCI address, or by the name of the
        /// RDMA device or interface in the profile.
        device: String,
    },
    /// Changes the state of a port, as a cable or subnet manager would.
    SetPortState {
        device: String,
        /// Port number, starting at 1.
        port: u32,
        state: SimPortState,
    },
    /// Sets the number of virtual functions. Between two nonzero numbers it is set to 0 first, as the kernel
    /// requires.
    SetVfCount { device: String, count: u16 },
    /// Adds to a counter of a port, for example `symbol_error` or `out_of_sequence`.
    AddToCounter {
        /// PCI address, RDMA device or interface of an adapter or virtual function.
        device: String,
        /// Port number, starting at 1.
        port: u32,
        /// The kernel's name of the counter.
        counter: String,
        by: u64,
    },
    /// Sets the RDMA network namespace mode: shared or exclusive.
    SetNetnsMode { mode: NetnsMode },
    /// Writes the P_Key table of an adapter or a virtual function, as a subnet manager does. The first key
    /// determines the partition of the function's interface.
    SetPKeys {
        /// PCI address, RDMA device or interface of an adapter or virtual function.
        device: String,
        /// P_Keys to write, starting at slot 0 of the P_Key table.
        keys: Vec<PKey>,
    },
    /// Writes the P_Key tables of all InfiniBand ports, as a sweep of the subnet manager does.
    SetFabricPKeys {
        /// P_Key tables by port GUID, each starting at slot 0.
        tables: BTreeMap<Guid, Vec<PKey>>,
        /// P_Key table of every port that is not in `tables`.
        others: Vec<PKey>,
    },
}

impl Simulation {
    /// Applies a change to the simulation that runs on the host whose root directory is `root`. Must be
    /// called in the network namespace of the node.
    pub fn change(root: &Root, change: &SimulationChange) -> Result<(), Error> {
        let simulation = Self::find(root)?.ok_or(Error::NotUp)?;
        let mut machine = SimMachine::open(root, &simulation)?;
        match change {
            SimulationChange::Unplug { device } => {
                let adapter = simulation.find_adapter(&machine, device)?;
                machine.unplug(adapter)?;
            }
            SimulationChange::Replug { device } => {
                let adapter = simulation.find_adapter(&machine, device)?;
                machine.plug(adapter)?;
            }
            SimulationChange::SetPortState { device, port, state } => {
                let adapter = simulation.find_adapter(&machine, device)?;
                machine.set_port_state(adapter, *port as usize, *state)?;
            }
            SimulationChange::SetVfCount { device, count } => {
                let adapter = simulation.find_adapter(&machine, device)?;
                let id = FunctionId { adapter, vf: None };
                let current = machine.state().adapters.get(adapter).map_or(0, |adapter| adapter.vfs.len());
                if current != usize::from(*count) && current != 0 {
                    machine.set_vf_count(id, 0)?;
                }
                machine.set_vf_count(id, *count)?;
            }
            SimulationChange::AddToCounter { device, port, counter, by } => {
                let id = simulation.find_function(&machine, device)?;
                machine.add_to_counter(id, *port as usize, counter, *by)?;
            }
            SimulationChange::SetNetnsMode { mode } => machine.set_netns_mode(*mode)?,
            SimulationChange::SetPKeys { device, keys } => {
                let id = simulation.find_function(&machine, device)?;
                machine.set_pkeys(id, keys.clone())?;
            }
            SimulationChange::SetFabricPKeys { tables, others } => {
                let ports: Vec<(FunctionId, Option<Guid>)> = machine
                    .state()
                    .devices()
                    .filter(|(id, _)| {
                        let hca = simulation.profile.hcas.get(id.adapter);
                        hca.is_some_and(|hca| hca.link_layer() == LinkLayer::InfiniBand)
                    })
                    .map(|(id, device)| (id, device.port_guids.first().copied()))
                    .collect();
                for (id, guid) in ports {
                    let keys = guid.and_then(|guid| tables.get(&guid)).unwrap_or(others);
                    machine.set_pkeys(id, keys.clone())?;
                }
            }
        }
        machine.commit()
    }

    /// Finds an adapter by its PCI address, RDMA device or interface, plugged in or not.
    fn find_adapter(&self, machine: &SimMachine, name: &str) -> Result<usize, Error> {
        if let Ok(address) = name.parse::<PciAddress>() {
            return machine.find_adapter(address);
        }
        if let Ok(id) = self.find_function(machine, name)
            && id.vf.is_none()
        {
            return Ok(id.adapter);
        }
        let known = self.profile.hcas.iter().position(|hca| {
            let mut netdevs = hca.ports.iter().filter_map(|port| port.netdev.as_ref());
            hca.rdma == name
                || netdevs.any(|netdev| netdev.name == name || netdev.altnames.iter().any(|one| one == name))
        });
        known.ok_or_else(|| Error::NoDevice { device: name.to_owned() })
    }

    /// Finds a function by its PCI address, RDMA device or interface. The function must be plugged in.
    fn find_function(&self, machine: &SimMachine, name: &str) -> Result<FunctionId, Error> {
        if let Ok(address) = name.parse::<PciAddress>() {
            return machine.find_function(address);
        }
        let found = machine.state().devices().find(|(_, device)| {
            device.name == name || device.netdevs.iter().flatten().any(|netdev| netdev == name)
        });
        found.map(|(id, _)| id).ok_or_else(|| Error::NoDevice { device: name.to_owned() })
    }
}
