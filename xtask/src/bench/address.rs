//! Addresses assigned per second through the plugin, stored in etcd.

use super::BudgetCheck;
use anyhow::{Context, Result};
use clap::Args;
use ferroband_lab::cluster::{Lab, LabUpArgs, down, up};
use ferroband_lab::progress::run_step;
use ferroband_lab::swarm::{Swarm, SwarmReport, SwarmWorkload, run_workload};
use std::path::PathBuf;

/// Parallel ADDs and their total.
const RUNS: [(usize, usize); 4] = [(1, 50), (16, 400), (64, 1000), (256, 1500)];
/// Budget with 64 parallel ADDs, in addresses per second: 100 times Whereabouts.
const MIN_RATE: f64 = 800.0;

/// `cargo xtask bench address`
#[derive(Args, Debug)]
pub struct BenchAddressArgs {
    /// Folder with upstream plugins (`whereabouts`) to compare with
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Number of node daemons
    #[arg(long, default_value_t = 1)]
    members: usize,
    /// Measure in this running lab instead of in a new one
    #[arg(long, value_name = "NAME")]
    within: Option<String>,
    /// Folder with `ferroband` and `ferroband-cni`; built if not given
    #[arg(long, env = "FERROBAND_PROGRAMS")]
    programs: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn measure(args: &BenchAddressArgs, budget: &mut BudgetCheck) -> Result<()> {
    if let Some(name) = &args.within {
        return measure_in(&Lab::named(name)?, args, budget);
    }
    let lab = Lab::named(&format!("bench-{}", std::process::id()))?;
    let profile = "default".to_owned();
    let lab_args = LabUpArgs {
        nodes: Some(1),
        install: true,
        profile,
        owner: Some(std::process::id()),
        ..LabUpArgs::unchanged()
    };
    let measured = up(&lab, &lab_args).and_then(|()| measure_in(&lab, args, budget));
    measured.and(down(&lab))
}

fn measure_in(lab: &Lab, args: &BenchAddressArgs, budget: &mut BudgetCheck) -> Result<()> {
    let swarm = run_step("node daemons", |_| {
        Swarm::start(lab.clone(), "bench", args.members, args.programs.as_deref())
    })?;
    let mut own_reports = Vec::new();
    let measured: Result<()> = RUNS.iter().try_for_each(|(at_once, addresses)| {
        let report = run_adds(&swarm, *at_once, *addresses, &format!("a{at_once}x"), None)?;
        own_reports.push((*at_once, report));
        Ok(())
    });
    let peer = args.peers.as_ref().map(|folder| measure_peer(&swarm, lab, &folder.join("whereabouts")));
    swarm.stop()?;
    measured?;
    println!("addresses assigned and stored in etcd, {} node daemon(s):", args.members);
    println!("  {:>8} {:>10} {:>10} {:>10} {:>9}", "parallel", "per second", "p50 ms", "p99 ms", "failures");
    for (at_once, report) in &own_reports {
        print_report(*at_once, report);
    }
    let best =
        own_reports.iter().find(|(at_once, _)| *at_once == 64).map_or(0.0, |(_, report)| report.rate());
    budget.at_least("rate with 64 in parallel", best, MIN_RATE, "per second");
    if let Some(peer) = peer {
        println!(
            "whereabouts of {}:",
            args.peers.as_deref().map(|p| p.display().to_string()).unwrap_or_default()
        );
        for (at_once, report) in &peer? {
            print_report(*at_once, report);
        }
    }
    Ok(())
}

fn print_report(at_once: usize, report: &SwarmReport) {
    println!(
        "  {at_once:>8} {:>10.1} {:>10.1} {:>10.1} {:>9}",
        report.rate(),
        report.percentile(0.5),
        report.percentile(0.99),
        report.failures
    );
}

fn run_adds(
    swarm: &Swarm,
    at_once: usize,
    addresses: usize,
    name: &str,
    ipam: Option<String>,
) -> Result<SwarmReport> {
    let ipam = ipam.unwrap_or_else(|| r#"{"type":"whereabouts","range":"10.200.0.0/16"}"#.to_owned());
    let workload = SwarmWorkload {
        addresses,
        at_once,
        ipam,
        kill: false,
        assign_in_kernel: false,
        name: name.to_owned(),
    };
    run_step(format!("{addresses} addresses, {at_once} in parallel"), |_| {
        run_workload(swarm, &workload, || Ok(()))
    })
}

/// The same calls to an upstream plugin, which talks to the API server itself; fewer of them, since it is slow.
fn measure_peer(swarm: &Swarm, lab: &Lab, program: &std::path::Path) -> Result<Vec<(usize, SwarmReport)>> {
    let member = swarm.members.first().context("the swarm has no member")?;
    member.replace_plugin(program)?;
    let kubeconfig = lab.kubeconfig();
    let ipam = format!(
        r#"{{"type":"whereabouts","range":"10.201.0.0/16","kubernetes":{{"kubeconfig":"{0}"}},"configuration_path":"{1}"}}"#,
        kubeconfig.display(),
        member.write_whereabouts_config()?.display()
    );
    let mut reports = Vec::new();
    for at_once in [1, 16, 64] {
        let name = format!("p{at_once}x");
        reports.push((at_once, run_adds(swarm, at_once, at_once.max(16), &name, Some(ipam.clone()))?));
    }
    Ok(reports)
}
