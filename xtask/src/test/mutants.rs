//! Mutation tests: cargo-mutants changes one expression or function body at a time and runs the crate's tests. A mutant
//! that passes them shows a missing test.
//!
//! `.cargo/mutants.toml` excludes mutants that no test can or should catch, each with its reason.

use super::cargo::unprivileged_tests;
use super::tally::Tally;
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, tail};
use ferroband_lab::progress::ProgressStep;
use ferroband_lab::tools;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Crates that are mutated. Of `attach`, only the pure files are.
const CRATES: [&str; 6] = [
    "ferroband-model",
    "ferroband-config",
    "ferroband-partition",
    "ferroband-address",
    "ferroband-api",
    "ferroband-attach",
];

/// Exit codes of cargo-mutants with a complete run. A mutant that makes a test hang counts as noticed.
const ALL_CAUGHT: i32 = 0;
const SOME_MISSED: i32 = 2;
const SOME_TIMED_OUT: i32 = 3;

/// Mutates each crate whose name contains `only`.
pub fn run(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    let mutants = tools::ensure_cargo_mutants()?;
    for package in CRATES.into_iter().filter(|package| only.is_none_or(|only| package.contains(only))) {
        tally.check(&format!("tests notice every mutant of {package}"), || mutate(&mutants, package));
    }
    Ok(())
}

fn mutate(program: &Path, package: &str) -> Result<()> {
    let mut step = ProgressStep::begin(format!("mutants of {package}"));
    let progress = run_and_follow(&mut cargo_mutants(program, package)?, &mut step);
    match progress.as_ref().map(|progress| progress.missed.as_slice()) {
        Ok([]) => step.finish(""),
        _ => step.fail(),
    }
    let missed = progress?.missed;
    if missed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} mutants pass all tests: test what they change, or exclude them in .cargo/mutants.toml with a reason\n{}",
        missed.len(),
        missed.join("\n")
    )
}

fn cargo_mutants(program: &Path, package: &str) -> Result<Command> {
    let output = cache::folder("mutants")?.join(package);
    let mut cargo = command("cargo", ["mutants", "--package", package, "--colors", "never"]);
    cargo.args(["--caught", "--unviable", "--no-times"]);
    cargo.arg("--output").arg(output);
    // Half of the cores: cargo itself compiles and tests in parallel.
    let jobs = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 4));
    cargo.args(["--jobs", &jobs.to_string()]);
    cargo.args(["--cargo-arg", "--lib"]);
    for test in unprivileged_tests(package)? {
        cargo.args(["--cargo-arg", &format!("--test={test}")]);
    }
    let mut path = program.parent().unwrap_or(Path::new("/")).as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    // Each job builds in a copy of the checkout and must not share a target folder with another one.
    cargo.env("PATH", path).env_remove("CARGO_TARGET_DIR").current_dir(cache::checkout());
    Ok(cargo)
}

/// Runs cargo-mutants to its end and shows the counts.
fn run_and_follow(cargo: &mut Command, step: &mut ProgressStep) -> Result<MutationProgress> {
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot run cargo mutants")?;
    let mut progress = MutationProgress::default();
    let mut log = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("reading from cargo mutants")?;
            progress.read_line(&line);
            step.update(format!("{} of {}, {} missed", progress.done, progress.total, progress.missed.len()));
            log.push_str(&line);
            log.push('\n');
        }
    }
    let status = child.wait().context("waiting for cargo mutants")?;
    match status.code() {
        Some(ALL_CAUGHT | SOME_MISSED | SOME_TIMED_OUT) if progress.done > 0 => Ok(progress),
        _ => bail!("cargo mutants: {status}\n{}", tail(&log, 40)),
    }
}

/// Counts from the output of cargo-mutants, which has one line per mutant.
#[derive(Debug, Default, PartialEq)]
struct MutationProgress {
    total: usize,
    done: usize,
    missed: Vec<String>,
}

impl MutationProgress {
    fn read_line(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "Found" => {
                self.total = rest.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default();
            }
            "MISSED" => {
                self.done += 1;
                self.missed.push(rest.trim().to_owned());
            }
            "caught" | "unviable" | "TIMEOUT" => self.done += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_mutants_are_read_from_the_output() {
        let mut progress = MutationProgress::default();
        for line in [
            "Found 4 mutants to test",
            "ok       Unmutated baseline",
            "caught   crates/a/src/b.rs:1:2: replace + with - in c",
            "unviable crates/a/src/b.rs:1:2: replace c -> D with Default::default()",
            "MISSED   crates/a/src/b.rs:1:2: replace + with * in c",
            "TIMEOUT  crates/a/src/b.rs:3:2: replace d with ()",
            "4 mutants tested: 1 missed, 1 caught, 1 unviable, 1 timeout",
        ] {
            progress.read_line(line);
        }
        let missed = vec!["crates/a/src/b.rs:1:2: replace + with * in c".to_owned()];
        assert_eq!(progress, MutationProgress { total: 4, done: 4, missed });
    }
}
