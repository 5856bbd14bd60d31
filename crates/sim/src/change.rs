//! What people do to the simulated machine: pull adapters out, cut cables, make virtual functions.

use crate::machine::SimMachine;
use crate::state::FunctionId;
use crate::{Error, SimPortState, Simulation};
use ferroband_kernel::{NetnsMode, Root};
use ferroband_model::{Guid, LinkLayer, PKey, PciAddress};
use std::collections::BTreeMap;

/// Something to do to a device, which is named by its PCI address, its RDMA device or its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationChange {
    /// Pull the adapter out of its slot.
    Unplug {
        /// The adapter.
        device: String,
    },
    /// Put it back.
    Replug {
        /// The adapter; when it is out, its PCI address or what the profile calls its RDMA device or
        /// interface.
        device: String,
    },
    /// Do something to the cable of a port, or to the subnet manager.
    SetPortState {
        /// The adapter.
        device: String,
        /// The port, from 1.
        port: u32,
        /// What it is like from then on.
        state: SimPortState,
    },
    /// Have so many virtual functions; from one number to another by way of 0, as an administrator does.
    SetVfCount {
        /// The adapter.
        device: String,
        /// How many.
        count: u16,
    },
    /// Count something on a port: `symbol_error`, `out_of_sequence`.
    AddToCounter {
        /// The adapter or virtual function.
        device: String,
        /// The port, from 1.
        port: u32,
        /// The counter, by the kernel's name.
        counter: String,
        /// How much to add.
        by: u64,
    },
    /// Make RDMA devices belong to one network namespace each, or to all of them.
    SetNetnsMode {
        /// Which.
        mode: NetnsMode,
    },
    /// Write the P_Key table of an adapter or a virtual function, as a subnet manager does. The function's interface is
    /// in the partition of the first key.
    SetPKeys {
        /// The adapter or virtual function.
        device: String,
        /// The table, from slot 0.
        keys: Vec<PKey>,
    },
    /// The subnet manager goes over all ports of InfiniBand and writes their P_Key tables.
    SetFabricPKeys {
        /// The tables by port GUID, from slot 0.
        tables: BTreeMap<Guid, Vec<PKey>>,
        /// The table of every other port.
        others: Vec<PKey>,
    },
}

impl Simulation {
    /// Does something to the hardware of the simulation that is up on the machine under `root`. To be called
    /// in the network namespace of the node.
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
                let which = FunctionId { adapter, vf: None };
                let now = machine.state().adapters.get(adapter).map_or(0, |adapter| adapter.vfs.len());
                if now != usize::from(*count) && now != 0 {
                    machine.set_vf_count(which, 0)?;
                }
                machine.set_vf_count(which, *count)?;
            }
            SimulationChange::AddToCounter { device, port, counter, by } => {
                let which = simulation.find_function(&machine, device)?;
                machine.add_to_counter(which, *port as usize, counter, *by)?;
            }
            SimulationChange::SetNetnsMode { mode } => machine.set_netns_mode(*mode)?,
            SimulationChange::SetPKeys { device, keys } => {
                let which = simulation.find_function(&machine, device)?;
                machine.set_pkeys(which, keys.clone())?;
            }
            SimulationChange::SetFabricPKeys { tables, others } => {
                let ports: Vec<(FunctionId, Option<Guid>)> = machine
                    .state()
                    .devices()
                    .filter(|(which, _)| {
                        let hca = simulation.profile.hcas.get(which.adapter);
                        hca.is_some_and(|hca| hca.link_layer() == LinkLayer::InfiniBand)
                    })
                    .map(|(which, device)| (which, device.port_guids.first().copied()))
                    .collect();
                for (which, guid) in ports {
                    let keys = guid.and_then(|guid| tables.get(&guid)).unwrap_or(others);
                    machine.set_pkeys(which, keys.clone())?;
                }
            }
        }
        machine.commit()
    }

    /// The adapter of this name, plugged in or not.
    fn find_adapter(&self, machine: &SimMachine, name: &str) -> Result<usize, Error> {
        if let Ok(address) = name.parse::<PciAddress>() {
            return machine.find_adapter(address);
        }
        if let Ok(which) = self.find_function(machine, name)
            && which.vf.is_none()
        {
            return Ok(which.adapter);
        }
        let known = self.profile.hcas.iter().position(|hca| {
            let mut netdevs = hca.ports.iter().filter_map(|port| port.netdev.as_ref());
            hca.rdma == name
                || netdevs.any(|netdev| netdev.name == name || netdev.altnames.iter().any(|one| one == name))
        });
        known.ok_or_else(|| Error::NoDevice { device: name.to_owned() })
    }

    /// The function of this name that is there.
    fn find_function(&self, machine: &SimMachine, name: &str) -> Result<FunctionId, Error> {
        if let Ok(address) = name.parse::<PciAddress>() {
            return machine.find_function(address);
        }
        let found = machine.state().devices().find(|(_, device)| {
            device.name == name || device.netdevs.iter().flatten().any(|netdev| netdev == name)
        });
        found.map(|(which, _)| which).ok_or_else(|| Error::NoDevice { device: name.to_owned() })
    }
}
