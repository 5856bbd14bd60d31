//! The project's tasks: `cargo xtask demo` and `cargo xtask test` do everything; the rest are their parts.

mod cache;
mod command;
mod demo;
mod generate;
mod image;
mod lab;
mod programs;
mod progress;
mod test;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};
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
    /// Show the product's main job on a real cluster with simulated hardware
    Demo,
    /// Run the tests; all tiers when none is named
    Test(test::Test),
    /// A real Kubernetes on this machine, in namespaces of its own
    Lab(lab::LabCommand),
    /// Write the generated files (definitions, manifests, completions, manual pages) anew
    Generate,
    /// Build the images of the product and of the tests, as archives
    Image,
    #[command(hide = true)]
    LabInit(lab::Init),
    #[command(hide = true)]
    LabJanitor(lab::Janitor),
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
        Task::Test(args) => test::test(args),
        Task::Lab(command) => lab::run(command),
        Task::Generate => generate::generate().map(|()| 0),
        Task::Image => image::build_all().map(|()| 0),
        Task::LabInit(args) => lab::init(args).map(|()| 0),
        Task::LabJanitor(args) => lab::janitor(args).map(|()| 0),
    }
}
