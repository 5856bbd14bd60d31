//! Subcommands that change the simulated hardware.

use clap::{Subcommand, ValueEnum};
use ferroband_kernel::NetnsMode;
use ferroband_model::PKey;
use ferroband_sim::{SimPortState, SimulationChange};

/// A subcommand of `ferroband sim` that changes the simulated hardware.
#[derive(Debug, Subcommand)]
pub enum SimChangeCommand {
    /// Remove an adapter from its slot.
    Unplug {
        /// Adapter: its PCI address, RDMA device or interface.
        device: String,
    },
    /// Put an adapter back into its slot.
    Replug {
        /// Adapter: its PCI address, or the name of its RDMA device or interface in the profile.
        device: String,
    },
    /// Change the link state of a port.
    Port {
        /// Adapter: its PCI address, RDMA device or interface.
        device: String,
        /// New link state.
        state: SimPortStateArg,
        /// Port number, starting at 1.
        #[arg(long, default_value_t = 1)]
        port: u32,
    },
    /// Set the number of virtual functions of an adapter; existing ones are recreated.
    Vfs {
        /// Adapter: its PCI address, RDMA device or interface.
        device: String,
        /// New number of virtual functions.
        count: u16,
    },
    /// Write the P_Key table of an adapter or virtual function, as a subnet manager does.
    Pkeys {
        /// Adapter or virtual function: its PCI address, RDMA device or interface.
        device: String,
        /// P_Keys of the table, starting at index 0, for example 0x8005 0x7fff.
        #[arg(required = true)]
        keys: Vec<PKey>,
    },
    /// Increment a port counter.
    Count {
        /// Adapter or virtual function: its PCI address, RDMA device or interface.
        device: String,
        /// Kernel's name of the counter, for example symbol_error, link_downed or out_of_sequence.
        counter: String,
        /// Value to add to the counter.
        #[arg(long, default_value_t = 1)]
        by: u64,
        /// Port number, starting at 1.
        #[arg(long, default_value_t = 1)]
        port: u32,
    },
    /// Set the RDMA netns mode (`rdma system set netns`).
    Netns {
        /// New RDMA netns mode.
        mode: RdmaNetnsModeArg,
    },
}

/// Link state of a simulated port.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SimPortStateArg {
    /// The port has no link.
    Down,
    /// Link up, but not configured by a subnet manager.
    Init,
    /// Configured by a subnet manager; carries traffic.
    Active,
}

/// RDMA netns mode of the simulated host, as in `rdma system`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RdmaNetnsModeArg {
    /// Every network namespace sees every RDMA device.
    Shared,
    /// Each RDMA device belongs to one network namespace.
    Exclusive,
}

impl SimChangeCommand {
    pub fn into_change(self) -> SimulationChange {
        match self {
            Self::Unplug { device } => SimulationChange::Unplug { device },
            Self::Replug { device } => SimulationChange::Replug { device },
            Self::Vfs { device, count } => SimulationChange::SetVfCount { device, count },
            Self::Pkeys { device, keys } => SimulationChange::SetPKeys { device, keys },
            Self::Count { device, counter, by, port } => {
                SimulationChange::AddToCounter { device, port, counter, by }
            }
            Self::Port { device, state, port } => {
                let state = match state {
                    SimPortStateArg::Down => SimPortState::Down,
                    SimPortStateArg::Init => SimPortState::Init,
                    SimPortStateArg::Active => SimPortState::Active,
                };
                SimulationChange::SetPortState { device, port, state }
            }
            Self::Netns { mode: RdmaNetnsModeArg::Shared } => {
                SimulationChange::SetNetnsMode { mode: NetnsMode::Shared }
            }
            Self::Netns { mode: RdmaNetnsModeArg::Exclusive } => {
                SimulationChange::SetNetnsMode { mode: NetnsMode::Exclusive }
            }
        }
    }
}
