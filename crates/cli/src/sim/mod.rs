//! `ferroband sim`.

mod change;
mod fabric;
mod status;

use anyhow::Context;
use change::SimChangeCommand;
use clap::{Args, Subcommand};
use fabric::SimFabricCommand;
use ferroband_kernel::{Netns, Root};
use ferroband_node::find_profile;
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use std::{
    io::{Write, stdout},
    path::PathBuf,
};

const AFTER_HELP: &str = "\
A day with simulated hardware:
  ferroband sim up --profile dgx          eight adapters and eight GPUs
  ferroband inspect -o wide               as if they were there
  ferroband sim vfs mlx5_0 4              an administrator makes virtual functions
  ferroband sim port mlx5_0 down          somebody trips over a cable
  ferroband sim count mlx5_0 symbol_error --by 3
  ferroband sim unplug mlx5_1             an adapter dies
  ferroband sim down

Hardware of your own:
  ferroband sim profile dgx > mine.yaml   edit it, then
  ferroband sim up --file mine.yaml

A device is named by its PCI address, its RDMA device or its interface.";

/// Simulate InfiniBand hardware on this machine
///
/// For development without hardware: everything else behaves as if the devices were there, and says that they are
/// simulated. Needs root. `ferroband node --simulate PROFILE` does the same for a node of a cluster; there, run the
/// commands that change the hardware on the node, or in the daemon's pod.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SimCommand {
    #[command(subcommand)]
    action: SimAction,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    root: PathBuf,
}

#[derive(Debug, Subcommand)]
enum SimAction {
    /// Bring it up; what is up already stays.
    Up {
        /// The hardware to simulate: default, connectx-6, dgx, ethernet, vpi.
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
    /// Say whether it is up, and what its adapters are like.
    Status(status::SimStatusCommand),
    /// Print the description of a profile, as `up --file` takes it; without a name, list them.
    Profile {
        /// The profile.
        name: Option<String>,
    },
    /// Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`); it is back when that ends.
    Move {
        /// The RDMA device.
        device: String,
        /// The namespace, as a file: /var/run/netns/blue, /proc/4711/ns/net.
        netns: PathBuf,
    },
    Fabric(SimFabricCommand),
    #[command(flatten)]
    Change(SimChangeCommand),
}

impl SimCommand {
    /// Do it.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root);
        let mut out = stdout();
        match self.action {
            SimAction::Up { profile: name, file, uplink, seed } => {
                let hardware = match file {
                    Some(file) => Profile::read(&file).map_err(|e| e.fault())?,
                    None => find_profile(&name)?,
                };
                let up = Simulation::up(&root, hardware, SimulationOptions { seed, uplink });
                writeln!(
                    out,
                    "up: {}",
                    describe_simulation(&up.map_err(|e| e.fault()).context("bringing it up")?)
                )?;
            }
            SimAction::Down => {
                Simulation::down(&root).map_err(|e| e.fault()).context("taking it down")?;
                writeln!(out, "down")?;
            }
            SimAction::Status(status) => status.print(&root)?,
            SimAction::Profile { name: Some(name) } => {
                write!(out, "{}", serde_saphyr::to_string(&find_profile(&name)?)?)?;
            }
            SimAction::Profile { name: None } => write!(out, "{}", status::render_profiles())?,
            SimAction::Move { device, netns } => {
                let hardware = ferroband_sim::hardware(&root).map_err(|e| e.fault())?;
                let netns = Netns::open(&netns).map_err(|e| e.fault())?;
                hardware
                    .move_rdma_device(&device, None, &netns)
                    .map_err(|e| e.fault())
                    .context("moving it")?;
            }
            SimAction::Fabric(fabric) => fabric.run(&root)?,
            SimAction::Change(happens) => {
                let change = happens.into_change();
                Simulation::change(&root, &change)
                    .map_err(|e| e.fault())
                    .context("changing the simulated hardware")?;
            }
        }
        Ok(())
    }
}

fn describe_simulation(simulation: &Simulation) -> String {
    let devices: Vec<_> =
        simulation.profile.hcas.iter().map(|hca| format!("{} at {}", hca.rdma, hca.pci)).collect();
    let uplink = simulation.uplink.as_deref().unwrap_or("none");
    format!("profile {}: {}; uplink {uplink}", simulation.profile.name, devices.join(", "))
}
