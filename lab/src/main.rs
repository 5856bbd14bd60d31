//! `ferroband-lab …`: the same commands as `cargo xtask lab …`.

use clap::{Parser, Subcommand};
use ferroband_lab::cluster::{InternalCommand, LabSelector, LabSubcommand, run_internal, run_subcommand};
use std::process::ExitCode;

/// Manage a real Kubernetes cluster on this machine, in separate namespaces.
#[derive(Parser, Debug)]
#[command(name = "ferroband-lab", version, arg_required_else_help = true)]
struct LabCli {
    #[command(flatten)]
    which: LabSelector,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    #[command(flatten)]
    Lab(LabSubcommand),
    #[command(flatten)]
    Internal(InternalCommand),
}

fn main() -> ExitCode {
    let program = LabCli::parse();
    let ended = match &program.verb {
        Verb::Lab(subcommand) => run_subcommand(&program.which, subcommand),
        Verb::Internal(internal) => run_internal(internal),
    };
    match ended {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
