//! What can happen to simulated hardware.

use clap::{Subcommand, ValueEnum};
use ferroband_kernel::NetnsMode;
use ferroband_model::PKey;
use ferroband_sim::{SimPortState, SimulationChange};

/// Something that happens.
#[derive(Debug, Subcommand)]
pub enum SimChangeCommand {
    /// Pull an adapter out of its slot.
    Unplug {
        /// The adapter.
        device: String,
    },
    /// Put an adapter back.
    Replug {
        /// Its PCI address, or what the profile calls its RDMA device or interface.
        device: String,
    },
    /// Do something to the cable of a port, or to the subnet manager.
    Port {
        /// The adapter.
        device: String,
        /// What the port is like from then on.
        state: SimPortStateArg,
        /// The port.
        #[arg(long, default_value_t = 1)]
        port: u32,
    },
    /// Have so many virtual functions; those that are there are made anew.
    Vfs {
        /// The adapter.
        device: String,
        /// How many.
        count: u16,
    },
    /// Write the P_Key table of an adapter or a virtual function, as a subnet manager does.
    Pkeys {
        /// The adapter or virtual function.
        device: String,
        /// The keys, from slot 0: 0x8005, 0x7fff.
        #[arg(required = true)]
        keys: Vec<PKey>,
    },
    /// Count something on a port, as errors do.
    Count {
        /// The adapter or virtual function.
        device: String,
        /// The counter by the kernel's name: symbol_error, link_downed, out_of_sequence, …
        counter: String,
        /// How much to add.
        #[arg(long, default_value_t = 1)]
        by: u64,
        /// The port.
        #[arg(long, default_value_t = 1)]
        port: u32,
    },
    /// Make RDMA devices belong to one network namespace each, or to all of them (`rdma system set netns`).
    Netns {
        /// Which.
        mode: RdmaNetnsModeArg,
    },
}

/// What a port is like.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SimPortStateArg {
    /// No link.
    Down,
    /// A link, but no subnet manager has configured it.
    Init,
    /// Carries traffic.
    Active,
}

/// How RDMA devices and network namespaces go together.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RdmaNetnsModeArg {
    /// Every namespace sees every device.
    Shared,
    /// A device is in one namespace.
    Exclusive,
}

impl SimChangeCommand {
    /// The same in the simulation's words.
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
