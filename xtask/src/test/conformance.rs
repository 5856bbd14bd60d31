//! CNI conformance cases, run against ferroband-cni or any other plugin binary.

use super::tally::Tally;
use anyhow::{Context, Result, bail};
use clap::Args;
use ferroband_lab::cache;
use ferroband_lab::command::{command, exec, output};
use std::process::Command;

/// `cargo xtask conformance`
#[derive(Args, Debug)]
pub struct ConformanceArgs {
    /// Arguments of the conformance runner: --binary PATH [--only N] [--upstream] …; see --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<String>,
}

/// Replaces this process with the conformance runner.
pub fn run_player(args: &ConformanceArgs) -> Result<i32> {
    ferroband_lab::tools::require_root()?;
    ferroband_lab::tools::require(ferroband_lab::tools::LAB_REQUIREMENTS)?;
    exec(player_command().args(&args.args))
}

/// The test tier: all cases against ferroband-cni.
pub fn run(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    ferroband_lab::tools::require_root()?;
    ferroband_lab::tools::require(ferroband_lab::tools::LAB_REQUIREMENTS)?;
    output(
        command("cargo", ["build", "--quiet", "--package", "ferroband-cni"]).current_dir(cache::checkout()),
    )?;
    let binary = ferroband_lab::image::cargo_target_dir()?.join("debug/ferroband-cni");
    let mut player = player_command();
    player.arg("--binary").arg(binary);
    if let Some(only) = only {
        player.args(["--only", only]);
    }
    let end = player.output().context("cannot run the conformance runner")?;
    let output = String::from_utf8_lossy(&end.stdout);
    for line in output.lines() {
        eprintln!("  {line}");
    }
    if !tally.add_summary_line(&output) {
        bail!("the conformance runner printed no summary: {}", String::from_utf8_lossy(&end.stderr));
    }
    Ok(())
}

/// Checks the size budget of `ferroband-cni`, which runs for every pod, and measures its start time.
pub fn check_budget(tally: &mut Tally) -> Result<()> {
    let file = ferroband_lab::image::build_cni()?;
    let size = std::fs::metadata(&file)?.len();
    let mut fastest = std::time::Duration::MAX;
    for _ in 0..20 {
        let begin = std::time::Instant::now();
        output(Command::new(&file).env("CNI_COMMAND", "VERSION"))?;
        fastest = fastest.min(begin.elapsed());
    }
    eprintln!("  ferroband-cni: {size} bytes, VERSION in {:.2} ms", fastest.as_secs_f64() * 1000.0);
    tally.record("ferroband-cni is at most 2 MB", size <= MAX_SIZE, &format!("{size} bytes"));
    Ok(())
}

/// Size budget in bytes.
const MAX_SIZE: u64 = 2_000_000;

fn player_command() -> Command {
    let mut cargo = command("cargo", ["run", "--quiet", "--package", "ferroband-conformance", "--"]);
    cargo.current_dir(cache::checkout());
    cargo
}
