//! Labs of the scenarios: started before, removed afterwards, also if this process is killed.

use super::cargo;
use super::lanes::{self, TestOptions, TestProgram};
use super::tally::Tally;
use anyhow::{Context, Result};
use ferroband_lab::cluster::{Lab, LabRdmaMode, LabUpArgs, NodeKernel, down, up};
use std::ffi::OsString;
use std::path::Path;

/// Name prefix of scenarios that need nodes with shared RDMA devices.
const SHARED_PREFIX: &str = "shared_";

/// Number of labs that scenarios share. Each file of scenarios runs on one of them.
const SHARED_LABS: usize = 2;

/// Starts the labs, runs the scenarios with this number of rounds, and takes the labs down.
pub fn run(
    tally: &mut Tally,
    only: Option<&str>,
    keep: bool,
    rounds: usize,
    peers: Option<&Path>,
) -> Result<()> {
    let shape = LabUpArgs { nodes: Some(3), profile: "default".to_string(), ..LabUpArgs::unchanged() };
    let kinds: Vec<String> = (1..=SHARED_LABS).map(|number| format!("test{number}")).collect();
    run_in_labs(tally, &kinds, keep, &shape, |tally, labs| {
        if only.is_none() {
            // Cheap here: the labs have just built the same programs.
            tally.check("a release can be built", check_release);
        }
        let programs = cargo::build_scenarios()?;
        let programs = programs.into_iter().map(|one| TestProgram { needs_lab: !has_own_lab(&one), ..one });
        // The last lane has no lab: it runs the files whose scenarios start labs of their own.
        let lanes: Vec<_> = labs.iter().map(|lab| Some(lab.as_str())).chain([None]).collect();
        lanes::run(tally, programs.collect(), &lanes, &scenario_options(only, rounds, peers)?)
    })
}

/// Whether a file's scenarios start their own lab, found by the call in the source.
fn has_own_lab(program: &TestProgram) -> bool {
    let text = std::fs::read_to_string(&program.source).unwrap_or_default();
    ["start_own_lab(", "start_bare_lab("].iter().any(|call| text.contains(call))
}

/// Arguments and environment variables of all scenarios.
fn scenario_options<'a>(
    only: Option<&'a str>,
    rounds: usize,
    peers: Option<&Path>,
) -> Result<TestOptions<'a>> {
    let xtask = std::env::current_exe().context("cannot find the path of xtask")?;
    let mut environment: Vec<(&str, OsString)> =
        vec![("FERROBAND_LAB_PROGRAM", xtask.into()), ("FERROBAND_SOAK", rounds.to_string().into())];
    if let Some(folder) = peers {
        let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
        environment.push(("FERROBAND_PEERS", folder.into()));
    }
    // One scenario needs it and fails with a clear message without it.
    if let Ok(program) = ferroband_lab::tools::ensure_promtool() {
        environment.push(("FERROBAND_PROMTOOL", program.into()));
    }
    Ok(TestOptions { args: ["--test-threads=1"].into_iter().chain(only).collect(), environment })
}

fn check_release() -> Result<()> {
    let folder = ferroband_lab::cache::folder("releases")?.join(std::process::id().to_string());
    let made = crate::dist::make(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    made
}

/// The same with two emulated nodes with InfiniBand, first in exclusive, then in shared RDMA mode: the mode is set at
/// boot.
pub fn run_emulated(tally: &mut Tally, only: Option<&str>, keep: bool, series: &str) -> Result<()> {
    for (rdma, kind) in [(LabRdmaMode::Exclusive, "vmtest"), (LabRdmaMode::Shared, "vmtest-shared")] {
        if only.is_some_and(|only| only.starts_with(SHARED_PREFIX) != (rdma == LabRdmaMode::Shared)) {
            continue;
        }
        let series = series.to_string();
        let shape =
            LabUpArgs { nodes: Some(2), kernel: NodeKernel::Vm, series, rdma, ..LabUpArgs::unchanged() };
        run_in_labs(tally, &[kind.to_string()], keep, &shape, |tally, labs| {
            let mut options = scenario_options(only, 1, None)?;
            match (only, rdma) {
                (Some(_), _) => {}
                (None, LabRdmaMode::Exclusive) => options.args.extend(["--skip", SHARED_PREFIX]),
                (None, LabRdmaMode::Shared) => options.args.push(SHARED_PREFIX),
            }
            let lanes: Vec<_> = labs.iter().map(|lab| Some(lab.as_str())).collect();
            lanes::run(tally, cargo::build_emulated_scenarios()?, &lanes, &options)
        })?;
    }
    Ok(())
}

/// Starts one lab for each of `kinds`, runs the scenarios with the names of the labs, and takes the labs down.
fn run_in_labs(
    tally: &mut Tally,
    kinds: &[String],
    keep: bool,
    shape: &LabUpArgs,
    scenarios: impl FnOnce(&mut Tally, &[String]) -> Result<()>,
) -> Result<()> {
    let owner = (!keep).then(std::process::id);
    let name = |kind: &String| if keep { kind.clone() } else { format!("{kind}-{}", std::process::id()) };
    let names: Vec<String> = kinds.iter().map(name).collect();
    let labs = names.iter().map(|name| Lab::named(name)).collect::<Result<Vec<_>>>()?;
    let args = LabUpArgs { install: true, owner, ..shape.clone() };
    let started = labs.iter().try_for_each(|lab| up(lab, &args));
    let result = started.and_then(|()| scenarios(tally, &names));
    for lab in &labs {
        if keep {
            eprintln!("the lab keeps running: cargo xtask lab --name {} status", lab.name());
        } else {
            tally.check("the lab is removed without a trace", || {
                down(lab).and_then(|()| check_no_traces(lab))
            });
        }
    }
    result
}

fn check_no_traces(lab: &Lab) -> Result<()> {
    let left = ferroband_lab::cluster::find_traces(lab);
    if left.is_empty() { Ok(()) } else { anyhow::bail!("left behind: {}", left.join(", ")) }
}
