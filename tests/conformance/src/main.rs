//! Plays CNI conformance cases against a plugin binary: ours or anybody's.
//!
//! Each case is a file `<number>.json` beside this crate: what is there, what is called, what must come of it. The
//! numbers are those of the project's list of cases.
//!
//! ```text
//! 028.json ─▶ Case ─▶ Stage (namespaces, simulated hardware, plugins as scripts) ─▶ play ─▶ judge ─▶ one line
//! ```
//!
//! Needs root. Everything happens in namespaces of its own; the machine stays as it is.

mod case;
mod expectation;
mod fixture;
mod runner;

use anyhow::{Context, Result, bail};
use case::{CaseRequirement, ConformanceCase};
use clap::Parser;
use std::{path::PathBuf, process::ExitCode, thread};

/// Play CNI conformance cases against a plugin binary
#[derive(Parser)]
struct ConformanceCommand {
    /// The binary. It is called by the names of the plugins that a case is for.
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// Play this case only; may be given several times.
    #[arg(long, value_name = "NUMBER")]
    only: Vec<u32>,
    /// Call the binary by this name only, where a case is for several; for binaries that are one plugin.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Leave out the cases that need an InfiniBand interface. Without this one is simulated, which only Ferroband's
    /// own binary can use.
    #[arg(long)]
    without_infiniband: bool,
    /// Leave out the cases in which upstream's plugins are known to do something else.
    #[arg(long)]
    upstream: bool,
}

/// What came of playing a case.
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
            let told = format!("{:>3} as {name}: {}", case.case, case.says);
            match outcome {
                CaseOutcome::Passed => {
                    passed += 1;
                    println!("pass {told}");
                }
                CaseOutcome::Skipped(reason) => {
                    skipped += 1;
                    println!("skip {told} ({reason})");
                }
                CaseOutcome::Failed(problems) => {
                    failed += 1;
                    println!("FAIL {told}");
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

/// Play a case on a thread of its own: namespaces belong to threads, and end with them.
fn run_on_own_thread(case: &ConformanceCase, name: &str, binary: &std::path::Path) -> CaseOutcome {
    let played = thread::scope(|scope| scope.spawn(|| runner::run_case(case, name, binary)).join());
    match played {
        Ok(Ok(problems)) if problems.is_empty() => CaseOutcome::Passed,
        Ok(Ok(problems)) => CaseOutcome::Failed(problems),
        Ok(Err(error)) => CaseOutcome::Failed(vec![format!("cannot be played: {error:#}")]),
        Err(_) => CaseOutcome::Failed(vec!["the runner panicked".to_owned()]),
    }
}
