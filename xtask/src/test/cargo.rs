//! Tests compiled by cargo, and checks that cargo makes.

use super::lanes::TestProgram;
use anyhow::{Context, Result};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use ferroband_lab::workspace;
use serde_json::Value;
use std::process::Command;

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

/// Compiles the tests of libraries and binaries, and the integration tests without privileges.
pub fn build_unit() -> Result<Vec<TestProgram>> {
    let mut args = vec!["--workspace", "--exclude", CLUSTER, "--exclude", VMLAB, "--lib", "--bins"];
    let tests = integration_tests()?;
    for (package, test) in &tests {
        if package != CLUSTER && package != VMLAB && test != NETNS {
            args.extend(["--test", test]);
        }
    }
    build(&args)
}

/// Compiles the fuzz targets.
pub fn build_fuzz() -> Result<Vec<TestProgram>> {
    build(&["--package", "ferroband-fuzz-tests", "--lib"])
}

/// Compiles each crate's `tests/netns.rs`.
pub fn build_netns() -> Result<Vec<TestProgram>> {
    build(&["--workspace", "--exclude", CLUSTER, "--exclude", VMLAB, "--test", NETNS])
}

/// Compiles the scenarios.
pub fn build_scenarios() -> Result<Vec<TestProgram>> {
    build(&["--package", CLUSTER])
}

/// Compiles the scenarios for a lab of emulated nodes.
pub fn build_emulated_scenarios() -> Result<Vec<TestProgram>> {
    build(&["--package", VMLAB, "--tests"])
}

/// Compiles tests and returns their programs.
fn build(args: &[&str]) -> Result<Vec<TestProgram>> {
    let mut test = cargo(&["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    let messages = output(test.args(args)).context("cannot build the tests")?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs: Vec<TestProgram> =
        messages.filter_map(|message| TestProgram::from_message(&message)).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
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
