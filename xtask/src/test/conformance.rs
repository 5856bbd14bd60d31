//! The conformance cases, played against our own CNI binary or anybody's.

use super::tally::Tally;
use crate::cache;
use crate::command::{become_it, command, output};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::process::Command;

/// Play the cases against a plugin binary.
#[derive(Args, Debug)]
pub struct Conformance {
    /// Arguments of the player: --binary PATH [--only N] [--upstream] …; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<String>,
}

/// Run the player in our place.
pub fn play(args: &Conformance) -> Result<i32> {
    crate::tools::require_root()?;
    crate::tools::require(crate::tools::LAB)?;
    become_it(player().args(&args.args))
}

/// The tier: our own binary, all cases.
pub fn run(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    crate::tools::require_root()?;
    crate::tools::require(crate::tools::LAB)?;
    output(
        command("cargo", ["build", "--quiet", "--package", "ferroband-cni"]).current_dir(cache::checkout()),
    )?;
    let binary = crate::image::target_folder()?.join("debug/ferroband-cni");
    let mut player = player();
    player.arg("--binary").arg(binary);
    if let Some(only) = only {
        player.args(["--only", only]);
    }
    let end = player.output().context("cannot run the player")?;
    let said = String::from_utf8_lossy(&end.stdout);
    for line in said.lines() {
        eprintln!("  {line}");
    }
    if !tally.plain(&said) {
        bail!("the player gave no count: {}", String::from_utf8_lossy(&end.stderr));
    }
    Ok(())
}

fn player() -> Command {
    let mut cargo = command("cargo", ["run", "--quiet", "--package", "ferroband-conformance", "--"]);
    cargo.current_dir(cache::checkout());
    cargo
}
