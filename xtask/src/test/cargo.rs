//! Tests run by cargo.

use super::tally::Tally;
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use ferroband_lab::workspace;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

/// The crate whose tests need a cluster.
const CLUSTER: &str = "ferroband-cluster-tests";
/// The crate whose tests need a cluster of emulated nodes.
const VMLAB: &str = "ferroband-vmlab-tests";
/// Name of integration tests that need network namespaces.
const NETNS: &str = "netns";

fn cargo(args: &[&str]) -> Command {
    let mut cargo = command("cargo", args);
    cargo.current_dir(cache::checkout());
    cargo
}

/// `cargo fmt --check`
pub fn check_formatting() -> Result<()> {
    output(&mut cargo(&["fmt", "--all", "--check"])).map(drop).context("run `cargo fmt --all`")
}

/// `cargo clippy` over everything, warnings denied.
pub fn check_lints() -> Result<()> {
    output(&mut cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        .map(drop)
}

/// Tests of libraries and binaries, and integration tests without privileges.
pub fn unit(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    let mut args = vec![
        "test",
        "--workspace",
        "--exclude",
        CLUSTER,
        "--exclude",
        VMLAB,
        "--lib",
        "--bins",
        "--no-fail-fast",
    ];
    let tests = integration_tests()?;
    for (package, test) in &tests {
        if package != CLUSTER && package != VMLAB && test != NETNS {
            args.extend(["--test", test]);
        }
    }
    run_and_count(tally, &mut cargo(&args), only, &[])
}

/// Each crate's `tests/netns.rs`.
pub fn netns(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    let args =
        ["test", "--workspace", "--exclude", CLUSTER, "--exclude", VMLAB, "--test", NETNS, "--no-fail-fast"];
    run_and_count(tally, &mut cargo(&args), only, &[])
}

/// The scenarios on the lab `lab`. Files whose scenarios start their own labs run in parallel to the others: both
/// mostly wait.
pub fn cluster(
    tally: &mut Tally,
    only: Option<&str>,
    lab: &str,
    rounds: usize,
    peers: Option<&Path>,
) -> Result<()> {
    let xtask = std::env::current_exe().context("cannot find the path of xtask")?;
    let peers =
        peers.map(|folder| folder.canonicalize().with_context(|| format!("no folder {}", folder.display())));
    let peers = peers.transpose()?;
    // One scenario needs it and fails with a clear message without it.
    let promtool = ferroband_lab::tools::ensure_promtool().ok();
    let scenarios = |files: &[String]| {
        let mut cargo = cargo(&["test", "--package", CLUSTER, "--no-fail-fast"]);
        cargo.args(files.iter().flat_map(|file| ["--test", file]));
        cargo.env("FERROBAND_LAB_PROGRAM", &xtask).env("FERROBAND_LAB", lab);
        cargo.env("FERROBAND_SOAK", rounds.to_string());
        cargo.envs(peers.iter().map(|folder| ("FERROBAND_PEERS", folder)));
        cargo.envs(promtool.iter().map(|program| ("FERROBAND_PROMTOOL", program)));
        cargo
    };
    let files =
        integration_tests()?.into_iter().filter(|(package, _)| package == CLUSTER).map(|(_, test)| test);
    let (own, common): (Vec<String>, Vec<String>) = files.partition(|file| has_own_lab(file));
    output(scenarios(&[]).args(["--tests", "--no-run", "--quiet"])).context("cannot build the scenarios")?;
    thread::scope(|scope| {
        let beside =
            scope.spawn(|| run_cargo(&mut scenarios(&own), only, &["--test-threads=1"], "own lab: "));
        let first = run_cargo(scenarios(&common).arg("--lib"), only, &["--test-threads=1"], "");
        let second = beside
            .join()
            .unwrap_or_else(|_| bail!("the thread of the scenarios with their own labs panicked"));
        [first, second].into_iter().try_for_each(|lane| add_to_tally(tally, &lane?))
    })
}

/// Whether a file's scenarios start their own lab, found by the call in the source.
fn has_own_lab(file: &str) -> bool {
    let path = cache::checkout().join("tests/cluster/tests").join(file).with_extension("rs");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    ["start_own_lab(", "start_bare_lab("].iter().any(|call| text.contains(call))
}

/// The scenarios on a lab of emulated nodes.
pub fn vmlab(tally: &mut Tally, which: &[&str], lab: &str) -> Result<()> {
    let xtask = std::env::current_exe().context("cannot find the path of xtask")?;
    let mut cargo = cargo(&["test", "--package", VMLAB, "--no-fail-fast", "--tests"]);
    cargo.env("FERROBAND_LAB_PROGRAM", xtask).env("FERROBAND_LAB", lab);
    run_and_count(tally, &mut cargo, None, &[&["--test-threads=1"], which].concat())
}

fn run_and_count(tally: &mut Tally, cargo: &mut Command, only: Option<&str>, more: &[&str]) -> Result<()> {
    add_to_tally(tally, &run_cargo(cargo, only, more, "")?)
}

/// Output and exit status of cargo.
struct CargoOutput {
    text: String,
    status: ExitStatus,
}

/// Runs cargo and prints its output, except passed tests.
fn run_cargo(cargo: &mut Command, only: Option<&str>, more: &[&str], who: &str) -> Result<CargoOutput> {
    cargo.arg("--").args(more).args(only);
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("reading from cargo test")?;
            if !line.is_empty() && !line.contains("... ok") {
                eprintln!("  {who}{line}");
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
    let status = child.wait().context("waiting for cargo test")?;
    Ok(CargoOutput { text, status })
}

fn add_to_tally(tally: &mut Tally, output: &CargoOutput) -> Result<()> {
    let counted = tally.add_libtest_output(&output.text);
    if !output.status.success() && (!counted || !output.text.contains("FAILED")) {
        bail!("cargo test: {}", output.status);
    }
    Ok(())
}

/// Integration tests of a package that need neither privileges nor a cluster.
pub fn unprivileged_tests(package: &str) -> Result<Vec<String>> {
    let tests = integration_tests()?.into_iter().filter(|(of, test)| of == package && test != NETNS);
    Ok(tests.map(|(_, test)| test).collect())
}

/// (package, integration test) pairs of the workspace.
fn integration_tests() -> Result<Vec<(String, String)>> {
    let metadata = workspace::metadata()?;
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            if target["kind"][0] == "test" {
                let name = |v: &Value| v["name"].as_str().unwrap_or_default().to_string();
                found.push((name(package), name(target)));
            }
        }
    }
    Ok(found)
}
