//! Removes a test's lab when the test ends: a separate process that survives a `kill -9` of the test.

use super::Lab;
use crate::command::command;
use anyhow::{Context, Result};
use clap::Args;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Arguments of the hidden subcommand.
#[derive(Args, Debug)]
pub struct LabJanitorArgs {
    /// Lab to remove.
    #[arg(long)]
    name: String,
    /// Process to wait for.
    #[arg(long)]
    owner: u32,
}

/// Starts a janitor in a new session.
pub fn spawn(lab: &Lab, owner: u32) -> Result<()> {
    let mut janitor = command("setsid", [super::internal_program()]);
    janitor.args(["lab-janitor", "--name", lab.name(), "--owner", &owner.to_string()]);
    janitor.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    janitor.spawn().map(drop).context("cannot start the janitor")
}

/// Waits for the owner's end, then removes the lab. PIDs are reused, so the start time is compared too.
pub fn run_janitor(args: &LabJanitorArgs) -> Result<()> {
    let lab = Lab::named(&args.name)?;
    let born = start_time(args.owner);
    while born.is_some() && start_time(args.owner) == born {
        std::thread::sleep(Duration::from_millis(500));
        if !lab.folder.exists() {
            return Ok(());
        }
    }
    super::down(&lab)
}

fn start_time(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    // A zombie has ended.
    let state = words.next()?;
    if state == "Z" { None } else { words.nth(18).map(str::to_string) }
}
