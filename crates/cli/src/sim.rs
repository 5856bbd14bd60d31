//! `ferroband sim`.

use anyhow::Context;
use clap::{Args, Subcommand};
use ferroband_kernel::Root;
use ferroband_node::profile;
use ferroband_sim::{Options, Simulation};
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
        /// The hardware to simulate.
        #[arg(long, default_value = "default")]
        profile: String,
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
}

impl Sim {
    /// Do it.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root);
        let mut out = stdout();
        match self.action {
            Action::Up { profile: name, uplink, seed } => {
                let up = Simulation::up(&root, profile(&name)?, Options { seed, uplink });
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
        }
        Ok(())
    }
}

fn told(simulation: &Simulation) -> String {
    let devices: Vec<_> =
        simulation.profile.hcas.iter().map(|hca| format!("{} at {}", hca.rdma, hca.pci)).collect();
    let uplink = simulation.uplink.as_deref().unwrap_or("none");
    format!("profile {}: {}; uplink {uplink}", simulation.profile.name, devices.join(", "))
}
