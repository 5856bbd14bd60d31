//! `cargo xtask lab …`

use super::emulated::{LabExecArgs, run_in_machine};
use super::init::{LabInitArgs, run_init};
use super::janitor::{LabJanitorArgs, run_janitor};
use super::{Lab, LabUpArgs, down, status, up};
use crate::command::exec;
use crate::progress::run_step;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};

/// Selects a lab.
#[derive(Args, Debug)]
pub struct LabSelector {
    /// Name of the lab; several labs can run in parallel
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

/// What to do with the lab
#[derive(Subcommand, Debug)]
pub enum LabSubcommand {
    /// Start a lab, or repair a running one
    Up(LabUpArgs),
    /// Remove a lab without a trace
    Down,
    /// Show machines and programs
    Status,
    /// Run kubectl as administrator, in the lab's network
    Kubectl {
        /// Arguments of kubectl
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run Helm as administrator, in the lab's network
    Helm {
        /// Arguments of Helm
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run ferroband as administrator, in the lab's network
    Ferroband {
        /// Arguments of ferroband
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Open a shell on a node or on `control`
    Shell {
        /// The machine
        machine: String,
    },
    /// Run a command on a node or on `control`
    Exec {
        /// The machine
        machine: String,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run many node daemons on this machine against the lab's API server and request addresses
    Swarm(crate::swarm::SwarmArgs),
    /// Cut a node's power and start it again
    Reboot {
        /// The node
        node: String,
    },
}

/// Subcommands that the lab runs itself, in processes of their own.
#[derive(Subcommand, Debug)]
pub enum InternalCommand {
    #[command(hide = true)]
    LabInit(LabInitArgs),
    #[command(hide = true)]
    LabJanitor(LabJanitorArgs),
    #[command(hide = true)]
    LabExec(LabExecArgs),
}

/// Runs an internal subcommand.
pub fn run_internal(internal: &InternalCommand) -> Result<i32> {
    match internal {
        InternalCommand::LabInit(args) => run_init(args).map(|()| 0),
        InternalCommand::LabJanitor(args) => run_janitor(args).map(|()| 0),
        InternalCommand::LabExec(args) => run_in_machine(args),
    }
}

/// Runs `cargo xtask lab`.
pub fn run(lab: &LabCommand) -> Result<i32> {
    run_subcommand(&lab.which, &lab.verb)
}

/// Runs the subcommand; returns the exit code of a command that was run.
pub fn run_subcommand(which: &LabSelector, subcommand: &LabSubcommand) -> Result<i32> {
    let which = Lab::named(&which.name)?;
    match subcommand {
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

/// Power cut and start: processes, namespaces, links and /run are lost; disks stay.
pub fn reboot(lab: &Lab, node: &str) -> Result<()> {
    let machine = lab.find_machine(node)?;
    run_step(format!("cutting the power of {node}"), |_| {
        machine.kill()?;
        machine.remove_kernel_state()
    })?;
    up(lab, &LabUpArgs::unchanged())
}
