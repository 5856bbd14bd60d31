//! Lab of the scenarios: started before, removed afterwards, also if this process is killed.

use super::cargo;
use super::tally::Tally;
use anyhow::Result;
use ferroband_lab::cluster::{Lab, LabRdmaMode, LabUpArgs, NodeKernel, down, up};
use std::path::Path;

/// Name prefix of scenarios that need nodes with shared RDMA devices.
const SHARED_PREFIX: &str = "shared_";

/// Starts a lab, runs the scenarios with this number of rounds, and takes the lab down.
pub fn run(
    tally: &mut Tally,
    only: Option<&str>,
    keep: bool,
    rounds: usize,
    peers: Option<&Path>,
) -> Result<()> {
    let shape = LabUpArgs { nodes: Some(3), profile: "default".to_string(), ..LabUpArgs::unchanged() };
    run_in_lab(tally, "test", keep, shape, |tally, lab| {
        if only.is_none() {
            // Cheap here: the lab has just built the same programs.
            tally.check("a release can be built", check_release);
        }
        cargo::cluster(tally, only, lab, rounds, peers)
    })
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
        run_in_lab(tally, kind, keep, shape, |tally, lab| match (only, rdma) {
            (Some(only), _) => cargo::vmlab(tally, &[only], lab),
            (None, LabRdmaMode::Exclusive) => cargo::vmlab(tally, &["--skip", SHARED_PREFIX], lab),
            (None, LabRdmaMode::Shared) => cargo::vmlab(tally, &[SHARED_PREFIX], lab),
        })?;
    }
    Ok(())
}

fn run_in_lab(
    tally: &mut Tally,
    kind: &str,
    keep: bool,
    shape: LabUpArgs,
    scenarios: impl FnOnce(&mut Tally, &str) -> Result<()>,
) -> Result<()> {
    let name = if keep { kind.to_string() } else { format!("{kind}-{}", std::process::id()) };
    let lab = Lab::named(&name)?;
    let owner = (!keep).then(std::process::id);
    let result =
        up(&lab, &LabUpArgs { install: true, owner, ..shape }).and_then(|()| scenarios(tally, &name));
    if keep {
        eprintln!("the lab keeps running: cargo xtask lab --name {name} status");
    } else {
        tally.check("the lab is removed without a trace", || down(&lab).and_then(|()| check_no_traces(&lab)));
    }
    result
}

fn check_no_traces(lab: &Lab) -> Result<()> {
    let left = ferroband_lab::cluster::find_traces(lab);
    if left.is_empty() { Ok(()) } else { anyhow::bail!("left behind: {}", left.join(", ")) }
}
