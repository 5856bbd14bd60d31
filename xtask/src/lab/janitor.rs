//! Takes a test's lab down when the test is gone, however it went: a process of its own that outlives a `kill -9`.

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
    /// The lab to take down.
    #[arg(long)]
    name: String,
    /// The process to wait for.
    #[arg(long)]
    owner: u32,
}

/// Leave a janitor behind, in a session of its own.
pub fn spawn(lab: &Lab, owner: u32) -> Result<()> {
    let xtask = format!("/proc/{}/exe", std::process::id());
    let mut janitor = command("setsid", [&xtask]);
    janitor.args(["lab-janitor", "--name", lab.name(), "--owner", &owner.to_string()]);
    janitor.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    janitor.spawn().map(drop).context("cannot leave a janitor behind")
}

/// Wait for the owner's end, then clean up. A pid may be reused, a process with the same start time is the same.
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
    // A zombie has ended, even if nobody has collected it.
    let state = words.next()?;
    if state == "Z" { None } else { words.nth(18).map(str::to_string) }
}
