//! `cargo xtask lab swarm`

use super::{Swarm, SwarmReport, SwarmWorkload, run_workload};
use crate::cluster::{Lab, LabUpArgs, up};
use crate::command::output;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;

/// Parallel DELs at the end.
const PARALLEL_DELS: usize = 16;

/// Runs many node daemons on this machine against the lab's API server and requests addresses.
///
/// Prints one line of JSON when all addresses are assigned and waits for the end of standard input before it cleans up,
/// so that the caller can inspect the API server and the namespaces (named like the members).
#[derive(Args, Debug)]
pub struct SwarmArgs {
    /// Number of daemons
    #[arg(long, default_value_t = 8)]
    members: usize,
    /// Number of addresses
    #[arg(long, default_value_t = 300)]
    addresses: usize,
    /// Number of parallel requests
    #[arg(long, default_value_t = 64)]
    at_once: usize,
    /// The `ipam` object, as JSON
    #[arg(long)]
    ipam: String,
    /// Kill daemons (SIGKILL) continuously
    #[arg(long)]
    kill: bool,
    /// Restart the API server half-way
    #[arg(long)]
    restart: bool,
    /// Name prefix of the members
    #[arg(long, default_value = "swarm")]
    called: String,
    /// Folder with `ferroband` and `ferroband-cni`; built if not given
    #[arg(long, env = "FERROBAND_PROGRAMS")]
    programs: Option<PathBuf>,
}

/// Runs the swarm and cleans up.
pub fn run_swarm(lab: &Lab, args: &SwarmArgs) -> Result<()> {
    let swarm = Swarm::start(lab.clone(), &args.called, args.members, args.programs.as_deref())?;
    let done = run_and_report(lab, args, &swarm);
    let ended = swarm.stop();
    done.and(ended)
}

fn run_and_report(lab: &Lab, args: &SwarmArgs, swarm: &Swarm) -> Result<()> {
    let workload = SwarmWorkload {
        addresses: args.addresses,
        at_once: args.at_once,
        ipam: args.ipam.clone(),
        kill: args.kill,
        assign_in_kernel: true,
        name: "n".to_owned(),
    };
    let restart = || match args.restart {
        true => restart_api_server(lab),
        false => Ok(()),
    };
    let report = run_workload(swarm, &workload, restart)?;
    for member in &swarm.members {
        member.wait_ready()?;
    }
    // One ADD beyond the range: report its error.
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"swarm","type":"none","ipam":{}}}"#, args.ipam);
    let (ok, answer) = swarm.members[0].call_plugin("ADD", "over", "over", &config)?;
    swarm.members[0].call_plugin("DEL", "over", "over", &config)?;
    let line = json!({"report": report, "over": {"good": ok, "answer": answer}});
    println!("{line}");
    // The caller inspects the state now.
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end of standard input")?;
    let deleted = delete_all(swarm, &report, &config)?;
    println!("{}", json!({ "deleted": deleted }));
    Ok(())
}

/// Deletes all addresses in parallel; returns whether every DEL succeeded.
fn delete_all(swarm: &Swarm, report: &SwarmReport, config: &str) -> Result<bool> {
    let share = report.assigned.len().div_ceil(PARALLEL_DELS).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = report
            .assigned
            .chunks(share)
            .map(|assigned| {
                scope.spawn(move || -> Result<bool> {
                    let mut deleted = true;
                    for one in assigned {
                        let member = swarm.members.iter().find(|member| member.name == one.node);
                        let member = member.context("unknown member")?;
                        deleted &= member.call_plugin("DEL", &one.container, &one.interface, config)?.0;
                    }
                    Ok(deleted)
                })
            })
            .collect();
        let mut all = true;
        for worker in workers {
            all &= worker.join().unwrap_or_else(|_| bail!("a worker panicked"))?;
        }
        Ok(all)
    })
}

/// Kills the API server and restarts it, as after a power cut.
fn restart_api_server(lab: &Lab) -> Result<()> {
    output(lab.exec("control")?.args(["sh", "-c", "kill -9 $(cat /run/lab/kube-apiserver.pid)"]))?;
    up(lab, &LabUpArgs::unchanged())
}
