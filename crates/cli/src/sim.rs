//! `ferroband sim`.

use anyhow::Context;
use clap::{Args, Subcommand};
use ferroband_kernel::Root;
use ferroband_node::profile;
use ferroband_sim::{Change, Options, Profile, Simulation};
use std::{
    io::{Write, stdout},
    path::PathBuf,
};

/// Simulate InfiniBand hardware on this machine
///
/// For development without hardware: everything else behaves as if the devices were there, and says that they are
/// simulated. Needs root. `ferroband node --simulate PROFILE` does the same for a node of a cluster.
#[derive(Args, Debug)]
pub struct Sim {
    #[command(subcommand)]
    action: Action,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    root: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Bring it up; what is up already stays.
    Up {
        /// The hardware to simulate: default, connectx-6, dgx, ethernet.
        #[arg(long, default_value = "default")]
        profile: String,
        /// A description of hardware instead, in YAML.
        #[arg(long, value_name = "FILE", conflicts_with = "profile")]
        file: Option<PathBuf>,
        /// Join the simulated fabrics of several machines over this interface.
        #[arg(long, value_name = "INTERFACE")]
        uplink: Option<String>,
        /// What the GUIDs are made from; must differ between machines.
        #[arg(long, env = "NODE_NAME", default_value = "localhost", value_name = "NAME")]
        seed: String,
    },
    /// Take it down: interfaces, partitions, files.
    Down,
    /// Say whether it is up, and what is simulated.
    Status,
    /// Pull an adapter out of its slot.
    Unplug {
        /// Its PCI address, RDMA device or interface.
        device: String,
    },
    /// Put an adapter back.
    Replug {
        /// Its PCI address, or what the profile calls its RDMA device or interface.
        device: String,
    },
    /// Have so many virtual functions.
    Vfs {
        /// The adapter: its PCI address, RDMA device or interface.
        device: String,
        /// How many.
        count: u16,
    },
    /// Count something on a port, as errors do.
    Count {
        /// The device.
        device: String,
        /// The counter by the kernel's name: symbol_error, link_downed, …
        counter: String,
        /// How much to add.
        #[arg(long, default_value_t = 1)]
        by: u64,
        /// The port.
        #[arg(long, default_value_t = 1)]
        port: u32,
    },
}

impl Sim {
    /// Do it.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root);
        let mut out = stdout();
        match self.action {
            Action::Up { profile: name, file, uplink, seed } => {
                let hardware = match file {
                    Some(file) => Profile::read(&file).map_err(|e| e.fault())?,
                    None => profile(&name)?,
                };
                let up = Simulation::up(&root, hardware, Options { seed, uplink });
                writeln!(out, "up: {}", told(&up.map_err(|e| e.fault()).context("bringing it up")?))?;
            }
            Action::Down => {
                Simulation::down(&root).map_err(|e| e.fault()).context("taking it down")?;
                writeln!(out, "down")?;
            }
            Action::Status => match Simulation::find(&root)? {
                Some(simulation) => writeln!(out, "up: {}", told(&simulation))?,
                None => writeln!(out, "down")?,
            },
            Action::Unplug { device } => change(&root, &Change::Unplug { device })?,
            Action::Replug { device } => change(&root, &Change::Replug { device })?,
            Action::Vfs { device, count } => change(&root, &Change::Vfs { device, count })?,
            Action::Count { device, counter, by, port } => {
                change(&root, &Change::Count { device, port, counter, by })?;
            }
        }
        Ok(())
    }
}

fn change(root: &Root, change: &Change) -> anyhow::Result<()> {
    Simulation::change(root, change).map_err(|e| e.fault()).context("changing the simulated hardware")
}

fn told(simulation: &Simulation) -> String {
    let devices: Vec<_> =
        simulation.profile.hcas.iter().map(|hca| format!("{} at {}", hca.rdma, hca.pci)).collect();
    let uplink = simulation.uplink.as_deref().unwrap_or("none");
    format!("profile {}: {}; uplink {uplink}", simulation.profile.name, devices.join(", "))
}
