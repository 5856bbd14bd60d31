//! How many addresses a second, through the plugin, until they are in etcd.

use super::BudgetCheck;
use crate::lab::{Lab, LabUpArgs, down, up};
use crate::progress::run_step;
use crate::swarm::{Swarm, SwarmReport, SwarmWorkload, run_workload};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;

/// ADDs at once, and how many in all.
const RUNS: [(usize, usize); 4] = [(1, 50), (16, 400), (64, 1000), (256, 1500)];
/// The design's budget at 64 at once: 100 times what Whereabouts does.
const MIN_RATE: f64 = 800.0;

/// `cargo xtask bench address`
#[derive(Args, Debug)]
pub struct BenchAddressArgs {
    /// A folder with other people's plugins (`whereabouts`), measured beside ours
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// How many node daemons share the work
    #[arg(long, default_value_t = 1)]
    members: usize,
    /// Measure in this lab, which is up, instead of in one of its own
    #[arg(long, value_name = "NAME")]
    within: Option<String>,
    /// A folder with `ferroband` and `ferroband-cni`, instead of building them
    #[arg(long, env = "FERROBAND_PROGRAMS")]
    programs: Option<PathBuf>,
}

/// Measure it.
pub fn measure(args: &BenchAddressArgs, verdict: &mut BudgetCheck) -> Result<()> {
    if let Some(name) = &args.within {
        return measure_in(&Lab::named(name)?, args, verdict);
    }
    let lab = Lab::named(&format!("bench-{}", std::process::id()))?;
    let profile = "default".to_owned();
    let wanted = LabUpArgs {
        nodes: Some(1),
        install: true,
        profile,
        owner: Some(std::process::id()),
        ..LabUpArgs::unchanged()
    };
    let measured = up(&lab, &wanted).and_then(|()| measure_in(&lab, args, verdict));
    measured.and(down(&lab))
}

fn measure_in(lab: &Lab, args: &BenchAddressArgs, verdict: &mut BudgetCheck) -> Result<()> {
    let swarm = run_step("node daemons", |_| {
        Swarm::start(lab.clone(), "bench", args.members, args.programs.as_deref())
    })?;
    let mut ours = Vec::new();
    let measured: Result<()> = RUNS.iter().try_for_each(|(at_once, addresses)| {
        let report = run_adds(&swarm, *at_once, *addresses, &format!("a{at_once}x"), None)?;
        ours.push((*at_once, report));
        Ok(())
    });
    let peer = args.peers.as_ref().map(|folder| measure_peer(&swarm, lab, &folder.join("whereabouts")));
    swarm.stop()?;
    measured?;
    println!("addresses assigned and in etcd, {} node daemon(s):", args.members);
    println!("  {:>8} {:>10} {:>10} {:>10} {:>9}", "at once", "a second", "p50 ms", "p99 ms", "failures");
    for (at_once, report) in &ours {
        print_report(*at_once, report);
    }
    let best = ours.iter().find(|(at_once, _)| *at_once == 64).map_or(0.0, |(_, report)| report.rate());
    verdict.at_least("rate at 64 at once", best, MIN_RATE, "a second");
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
    let errand = SwarmWorkload {
        addresses,
        at_once,
        ipam,
        kill: false,
        assign_in_kernel: false,
        name: name.to_owned(),
    };
    run_step(format!("{addresses} addresses, {at_once} at once"), |_| run_workload(swarm, &errand, || Ok(())))
}

/// The same calls to somebody else's plugin, which talks to the API server itself; few of them, as it takes its time.
fn measure_peer(swarm: &Swarm, lab: &Lab, program: &std::path::Path) -> Result<Vec<(usize, SwarmReport)>> {
    let member = swarm.members.first().context("a swarm without a member")?;
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
