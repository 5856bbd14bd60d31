//! `cargo xtask lab …`

use super::{Lab, LabUpArgs, down, status, up};
use crate::command::exec;
use crate::progress::run_step;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};

/// Which lab.
#[derive(Args, Debug)]
pub struct LabSelector {
    /// The lab's name; several live side by side
    #[arg(long, global = true, default_value = "lab", env = "FERROBAND_LAB")]
    name: String,
}

/// `cargo xtask lab`
#[derive(Args, Debug)]
pub struct LabCommand {
    #[command(flatten)]
    which: LabSelector,
    #[command(subcommand)]
    verb: LabSubcommand,
}

#[derive(Subcommand, Debug)]
enum LabSubcommand {
    /// Bring a lab up, or heal one that is
    Up(LabUpArgs),
    /// Take a lab down, without a trace
    Down,
    /// Show machines and programs
    Status,
    /// Run kubectl as the lab's administrator, from within its network
    Kubectl {
        /// kubectl's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run Helm as the lab's administrator, from within its network
    Helm {
        /// Helm's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run ferroband as the lab's administrator, from within its network
    Ferroband {
        /// ferroband's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Open a shell on a node, or on `control`
    Shell {
        /// The machine
        machine: String,
    },
    /// Run a command on a node, or on `control`
    Exec {
        /// The machine
        machine: String,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run many node daemons of this machine against the lab's API server, and ask them for addresses
    Swarm(crate::swarm::SwarmArgs),
    /// Cut a node's power and switch it on again
    Reboot {
        /// The node
        node: String,
    },
}

/// Carry it out; the exit code is the command's own where one was run.
pub fn run(lab: &LabCommand) -> Result<i32> {
    let which = Lab::named(&lab.which.name)?;
    match &lab.verb {
        LabSubcommand::Up(args) => up(&which, args).map(|()| 0),
        LabSubcommand::Down => down(&which).map(|()| 0),
        LabSubcommand::Status => status::print_status(&which),
        LabSubcommand::Kubectl { args } => {
            which.config()?;
            exec(which.kubectl()?.args(args))
        }
        LabSubcommand::Helm { args } => {
            which.config()?;
            exec(which.helm()?.args(args))
        }
        LabSubcommand::Ferroband { args } => {
            which.config()?;
            exec(which.ferroband()?.args(args))
        }
        LabSubcommand::Shell { machine } => exec(which.exec(machine)?.arg("bash")),
        LabSubcommand::Exec { machine, command } => exec(which.exec(machine)?.args(command)),
        LabSubcommand::Swarm(args) => crate::swarm::run_swarm(&which, args).map(|()| 0),
        LabSubcommand::Reboot { node } => {
            if node == "control" {
                bail!("only nodes can be rebooted");
            }
            reboot(&which, node).map(|()| 0)
        }
    }
}

/// A power cut and a start: processes, namespaces, links and /run go; disks stay.
pub fn reboot(lab: &Lab, node: &str) -> Result<()> {
    let machine = lab.find_machine(node)?;
    run_step(format!("cutting the power of {node}"), |_| {
        machine.kill()?;
        machine.remove_kernel_state()
    })?;
    up(lab, &LabUpArgs::unchanged())
}
