//! Tests run by cargo.

use super::tally::Tally;
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use ferroband_lab::workspace;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

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

/// Compiles the scenarios. Returns the test programs by the name of their file; that of the library is `lib`.
pub fn build_scenarios() -> Result<Vec<(String, PathBuf)>> {
    let args = ["test", "--package", CLUSTER, "--no-run", "--message-format", "json-render-diagnostics"];
    let messages = output(&mut cargo(&args)).context("cannot build the scenarios")?;
    let mut programs = Vec::new();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if let Some(program) = message["executable"].as_str().filter(|_| message["profile"]["test"] == true) {
            let name = match message["target"]["kind"][0].as_str() {
                Some("test") => message["target"]["name"].as_str().unwrap_or_default(),
                _ => "lib",
            };
            programs.push((name.to_string(), PathBuf::from(program)));
        }
    }
    programs.sort();
    Ok(programs)
}

/// The scenarios on a lab of emulated nodes.
pub fn vmlab(tally: &mut Tally, which: &[&str], lab: &str) -> Result<()> {
    let xtask = std::env::current_exe().context("cannot find the path of xtask")?;
    let mut cargo = cargo(&["test", "--package", VMLAB, "--no-fail-fast", "--tests"]);
    cargo.env("FERROBAND_LAB_PROGRAM", xtask).env("FERROBAND_LAB", lab);
    run_and_count(tally, &mut cargo, None, &[&["--test-threads=1"], which].concat())
}

fn run_and_count(tally: &mut Tally, cargo: &mut Command, only: Option<&str>, more: &[&str]) -> Result<()> {
    let output = run_printing(cargo.arg("--").args(more).args(only), "")?;
    let counted = tally.add_libtest_output(&output.text);
    if !output.status.success() && (!counted || !output.text.contains("FAILED")) {
        bail!("cargo test: {}", output.status);
    }
    Ok(())
}

/// Output and exit status of a test program, or of cargo.
pub struct TestOutput {
    pub text: String,
    pub status: ExitStatus,
}

/// Runs tests and prints their output, except passed tests. Each line starts with `prefix`.
pub fn run_printing(tests: &mut Command, prefix: &str) -> Result<TestOutput> {
    let mut child = tests.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {tests:?}"))?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("cannot read the output of the tests")?;
            if !line.is_empty() && !line.contains("... ok") {
                eprintln!("  {prefix}{line}");
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
    let status = child.wait().context("cannot wait for the tests")?;
    Ok(TestOutput { text, status })
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
