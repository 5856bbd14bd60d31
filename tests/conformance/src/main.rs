//! Runs CNI conformance cases against a plugin binary, Ferroband's or another.
//!
//! Each case is a file `<number>.json` in this crate's directory: preconditions, calls and expected outcomes. The
//! numbers are those of the project's case catalogue.
//!
//! ```text
//! 028.json ─▶ ConformanceCase ─▶ ConformanceFixture (namespaces, simulated hardware, scripts) ─▶ runner ─▶ expectation
//! ```
//!
//! Needs root. Everything runs in separate namespaces; the machine is not changed.

mod case;
mod expectation;
mod fixture;
mod runner;

use anyhow::{Context, Result, bail};
use case::{CaseRequirement, ConformanceCase};
use clap::Parser;
use std::{path::PathBuf, process::ExitCode, thread};

/// Run CNI conformance cases against a plugin binary
#[derive(Parser)]
struct ConformanceCommand {
    /// Plugin binary. It is run under the plugin names of each case.
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// Run only this case; may be repeated.
    #[arg(long, value_name = "NUMBER")]
    only: Vec<u32>,
    /// Run the binary only under this name; for binaries that implement a single plugin.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Skip cases that need an InfiniBand interface. Otherwise the interface is simulated, which only Ferroband's
    /// binary supports.
    #[arg(long)]
    without_infiniband: bool,
    /// Skip cases in which the upstream plugins are known to behave differently.
    #[arg(long)]
    upstream: bool,
}

/// Outcome of a case.
enum CaseOutcome {
    Passed,
    Failed(Vec<String>),
    Skipped(&'static str),
}

fn main() -> Result<ExitCode> {
    let arguments = ConformanceCommand::parse();
    let binary = arguments.binary.canonicalize().with_context(|| arguments.binary.display().to_string())?;
    if !nix::unistd::geteuid().is_root() {
        bail!("network namespaces need root");
    }
    let mut cases = case::load_all()?;
    cases.retain(|case| arguments.only.is_empty() || arguments.only.contains(&case.case));
    if cases.is_empty() {
        bail!("no such case");
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in cases {
        let names: Vec<_> =
            case.names.iter().filter(|name| arguments.name.as_ref().is_none_or(|n| n == *name)).collect();
        if names.is_empty() {
            skipped += 1;
            println!("skip {:>3} {}: not for this plugin", case.case, case.says);
        }
        for name in names {
            let outcome = match skip_reason(&arguments, &case) {
                Some(reason) => CaseOutcome::Skipped(reason),
                None => run_on_own_thread(&case, name, &binary),
            };
            let line = format!("{:>3} as {name}: {}", case.case, case.says);
            match outcome {
                CaseOutcome::Passed => {
                    passed += 1;
                    println!("pass {line}");
                }
                CaseOutcome::Skipped(reason) => {
                    skipped += 1;
                    println!("skip {line} ({reason})");
                }
                CaseOutcome::Failed(problems) => {
                    failed += 1;
                    println!("FAIL {line}");
                    problems.iter().for_each(|problem| println!("       {problem}"));
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn skip_reason(arguments: &ConformanceCommand, case: &ConformanceCase) -> Option<&'static str> {
    if arguments.without_infiniband && case.needs.contains(&CaseRequirement::Infiniband) {
        return Some("needs InfiniBand");
    }
    (arguments.upstream && case.differs).then_some("upstream differs")
}

/// Run a case in its own thread: namespaces belong to threads and end with them.
fn run_on_own_thread(case: &ConformanceCase, name: &str, binary: &std::path::Path) -> CaseOutcome {
    let result = thread::scope(|scope| scope.spawn(|| runner::run_case(case, name, binary)).join());
    match result {
        Ok(Ok(problems)) if problems.is_empty() => CaseOutcome::Passed,
        Ok(Ok(problems)) => CaseOutcome::Failed(problems),
        Ok(Err(error)) => CaseOutcome::Failed(vec![format!("cannot run: {error:#}")]),
        Err(_) => CaseOutcome::Failed(vec!["the runner panicked".to_owned()]),
    }
}
