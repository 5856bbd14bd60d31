//! The project's tasks. `cargo xtask demo` and `cargo xtask test` are the main ones; the others are parts of them.

mod bench;
#[cfg(test)]
mod book;
mod check;
mod demo;
mod dist;
mod generate;
mod test;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use ferroband_lab::cluster::{InternalCommand, LabCommand, run as run_lab, run_internal};
use ferroband_lab::{image, vm};
use std::process::ExitCode;

/// Build, try and test Ferroband on this machine.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", version, about, arg_required_else_help = true)]
struct Xtask {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Demonstrate Ferroband on a real cluster with simulated hardware
    Demo,
    /// Run the tests; the default tiers if none is named
    Test(test::TestArgs),
    /// Measure resource usage and performance against budgets
    Bench {
        #[command(subcommand)]
        what: bench::BenchCommand,
    },
    /// Run the CNI conformance cases against any plugin binary
    Conformance(test::ConformanceArgs),
    /// Manage a real Kubernetes cluster on this machine, in separate namespaces
    Lab(LabCommand),
    /// Open a shell in an emulated machine with InfiniBand: no hardware, no Kubernetes
    Fabric {
        #[command(subcommand)]
        verb: FabricCommand,
    },
    /// Regenerate the generated files: CRDs, manifests, completions, manual pages, reference, cases, golden files
    Generate,
    /// Build the images of Ferroband and of the tests as archives
    Image,
    /// Build a release: static programs, image, manifests, bill of materials, checksums
    Dist(dist::DistArgs),
    #[command(flatten)]
    Internal(InternalCommand),
}

#[derive(Subcommand, Debug)]
enum FabricCommand {
    /// Start the machine; it stops when the shell exits
    Up(KernelSeriesArgs),
    /// Build kernel and initramfs and print their paths
    Build(KernelSeriesArgs),
}

#[derive(Args, Debug)]
struct KernelSeriesArgs {
    /// Kernel series of Debian's packages
    #[arg(long, value_name = "SERIES", default_value = "6.1")]
    kernel: String,
}

fn main() -> ExitCode {
    match run(&Xtask::parse().task) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<i32> {
    match task {
        Task::Demo => demo::demo().map(|()| 0),
        Task::Test(args) => test::run_tests(args),
        Task::Bench { what } => bench::bench(what),
        Task::Conformance(args) => test::run_player(args),
        Task::Lab(command) => run_lab(command),
        Task::Fabric { verb: FabricCommand::Up(series) } => vm::open_shell(&series.kernel).map(|()| 0),
        Task::Fabric { verb: FabricCommand::Build(series) } => {
            let made = vm::build(&series.kernel)?;
            println!(
                "kernel {}: {}\ninitramfs: {}",
                made.release,
                made.kernel.display(),
                made.initramfs.display()
            );
            Ok(0)
        }
        Task::Generate => generate::generate().map(|()| 0),
        Task::Image => image::build_all().map(|()| 0),
        Task::Dist(args) => dist::dist(args).map(|()| 0),
        Task::Internal(internal) => run_internal(internal),
    }
}
