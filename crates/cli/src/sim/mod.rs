//! `ferroband sim`: simulates InfiniBand hardware on this host.

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
Example:
  ferroband sim up --profile dgx          eight adapters and eight GPUs
  ferroband inspect -o wide               shows them like real hardware
  ferroband sim vfs mlx5_0 4              creates virtual functions
  ferroband sim port mlx5_0 down          takes a link down
  ferroband sim count mlx5_0 symbol_error --by 3
  ferroband sim unplug mlx5_1             removes an adapter
  ferroband sim down

Custom hardware:
  ferroband sim profile dgx > mine.yaml   then edit it
  ferroband sim up --file mine.yaml

A device is identified by its PCI address, RDMA device or interface.";

/// Simulate InfiniBand hardware on this host
///
/// For development without hardware: all other commands treat the simulated devices like real ones and mark them as
/// simulated. Requires root. `ferroband node --simulate PROFILE` does the same for a cluster node; run the commands
/// that change the hardware on the node or in the daemon's pod.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SimCommand {
    #[command(subcommand)]
    action: SimAction,

    /// Directory where the host's root file system is mounted.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    root: PathBuf,
}

#[derive(Debug, Subcommand)]
enum SimAction {
    /// Start the simulation; has no effect if it is already up.
    Up {
        /// Hardware profile: default, connectx-6, dgx, ethernet, vpi.
        #[arg(long, default_value = "default")]
        profile: String,
        /// YAML file that describes the hardware, instead of a profile.
        #[arg(long, value_name = "FILE", conflicts_with = "profile")]
        file: Option<PathBuf>,
        /// Interface that connects the simulated fabrics of several hosts; without it this host has its own
        /// fabric.
        #[arg(long, value_name = "INTERFACE")]
        uplink: Option<String>,
        /// Seed for the GUIDs; must differ between hosts.
        #[arg(long, env = "NODE_NAME", default_value = "localhost", value_name = "NAME")]
        seed: String,
    },
    /// Stop the simulation and remove its interfaces, partitions and files.
    Down,
    /// Show whether the simulation is up, and the state of its adapters.
    Status(status::SimStatusCommand),
    /// Print the description of a profile in the format of `up --file`; without a name, list the profiles.
    Profile {
        /// Name of a built-in profile.
        name: Option<String>,
    },
    /// Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`). The device
    /// returns to the host when that namespace is deleted.
    Move {
        /// Name of the RDMA device, for example mlx5_0.
        device: String,
        /// Path of the network namespace, for example /var/run/netns/blue or /proc/4711/ns/net.
        netns: PathBuf,
    },
    Fabric(SimFabricCommand),
    #[command(flatten)]
    Change(SimChangeCommand),
}

impl SimCommand {
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
                    describe_simulation(&up.map_err(|e| e.fault()).context("cannot start the simulation")?)
                )?;
            }
            SimAction::Down => {
                Simulation::down(&root).map_err(|e| e.fault()).context("cannot stop the simulation")?;
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
                    .context("cannot move the RDMA device")?;
            }
            SimAction::Fabric(fabric) => fabric.run(&root)?,
            SimAction::Change(happens) => {
                let change = happens.into_change();
                Simulation::change(&root, &change)
                    .map_err(|e| e.fault())
                    .context("cannot change the simulated hardware")?;
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
