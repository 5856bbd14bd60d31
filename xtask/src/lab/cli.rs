//! `cargo xtask lab …`

use super::{Lab, Up, down, status, up};
use crate::command::become_it;
use crate::progress::step;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};

/// Which lab.
#[derive(Args, Debug)]
pub struct Which {
    /// The lab's name; several live side by side
    #[arg(long, global = true, default_value = "lab", env = "FERROBAND_LAB")]
    name: String,
}

/// `cargo xtask lab`
#[derive(Args, Debug)]
pub struct LabCommand {
    #[command(flatten)]
    which: Which,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Bring a lab up, or heal one that is
    Up(Up),
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
        Verb::Up(args) => up(&which, args).map(|()| 0),
        Verb::Down => down(&which).map(|()| 0),
        Verb::Status => status::status(&which),
        Verb::Kubectl { args } => {
            which.shape()?;
            become_it(which.kubectl()?.args(args))
        }
        Verb::Helm { args } => {
            which.shape()?;
            become_it(which.helm()?.args(args))
        }
        Verb::Ferroband { args } => {
            which.shape()?;
            become_it(which.ferroband()?.args(args))
        }
        Verb::Shell { machine } => become_it(which.exec(machine)?.arg("bash")),
        Verb::Exec { machine, command } => become_it(which.exec(machine)?.args(command)),
        Verb::Reboot { node } => {
            if node == "control" {
                bail!("only nodes can be rebooted");
            }
            reboot(&which, node).map(|()| 0)
        }
    }
}

/// A power cut and a start: processes, namespaces, links and /run go; disks stay.
pub fn reboot(lab: &Lab, node: &str) -> Result<()> {
    let machine = lab.machine(node)?;
    step(format!("cutting the power of {node}"), |_| {
        machine.kill()?;
        machine.clear()
    })?;
    up(lab, &Up::again())
}
