//! What an idle node daemon takes: a real one, in a lab of one node that has what a large GPU server has.

use super::BudgetCheck;
use crate::command::output;
use crate::lab::{Lab, LabUpArgs, down, up};
use crate::progress::{ProgressStep, run_step, wait_until};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::process::Stdio;
use std::time::Duration;

/// The simulated hardware with eight adapters.
const PROFILE: &str = "dgx";
const ADAPTERS: usize = 8;
/// So many virtual functions each.
const VFS: usize = 16;
/// The design's budget, in MB.
const MAX_RESIDENT_MB: f64 = 20.0;
/// The resource that all the virtual functions are offered as.
const RESOURCE: &str = "bench.ferroband.io/vf";

/// `cargo xtask bench node`
#[derive(Args, Debug)]
pub struct BenchNodeArgs {
    /// How long the daemon is left alone before it is looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    idle: u64,
    /// Leave the lab up for a look around
    #[arg(long)]
    keep: bool,
}

/// Measure it.
pub fn measure(args: &BenchNodeArgs, verdict: &mut BudgetCheck) -> Result<()> {
    let name = if args.keep { "bench".to_owned() } else { format!("bench-{}", std::process::id()) };
    let lab = Lab::named(&name)?;
    let owner = (!args.keep).then(std::process::id);
    let wanted = LabUpArgs {
        nodes: Some(1),
        install: true,
        profile: PROFILE.to_owned(),
        owner,
        ..LabUpArgs::unchanged()
    };
    let measured = up(&lab, &wanted).and_then(|()| measure_in(&lab, args, verdict));
    if args.keep {
        eprintln!("the lab is left up: cargo xtask lab --name {name} status");
        return measured;
    }
    measured.and(down(&lab))
}

fn measure_in(lab: &Lab, args: &BenchNodeArgs, verdict: &mut BudgetCheck) -> Result<()> {
    let nodes = lab.nodes()?;
    let node = nodes.first().context("a lab without a node")?;
    run_step(format!("{} virtual functions, offered to pods", ADAPTERS * VFS), |step| {
        for adapter in 0..ADAPTERS {
            exec_on(lab, node, &format!("ferroband sim vfs mlx5_{adapter} {VFS}"))?;
            step.update(format!("mlx5_{adapter}"));
        }
        apply_pool(lab)?;
        wait_allocatable(lab, node, step)
    })?;
    let before = read_usage(lab, node)?;
    run_step(format!("idle for {} s", args.idle), |_| {
        std::thread::sleep(Duration::from_secs(args.idle));
        Ok(())
    })?;
    let after = read_usage(lab, node)?;
    if after.process != before.process {
        bail!("the daemon was started anew meanwhile");
    }
    println!("ferroband node with {ADAPTERS} adapters and {} virtual functions:", ADAPTERS * VFS);
    verdict.at_most("resident memory", after.resident, MAX_RESIDENT_MB, "MB");
    verdict.figure("largest it ever was", format!("{:.1} MB", after.peak));
    let busy = (after.ticks - before.ticks) * 10.0 / args.idle.max(1) as f64;
    verdict.figure("processor time while idle", format!("{busy:.1} ms a second"));
    Ok(())
}

/// A pool that takes every virtual function.
fn apply_pool(lab: &Lab) -> Result<()> {
    let (prefix, name) = RESOURCE.split_once('/').context("a resource without a prefix")?;
    let config = format!(
        r#"{{"resourceList":[{{"resourcePrefix":"{prefix}","resourceName":"{name}","selectors":[{{"devices":["101e"],"isRdma":true}}]}}]}}"#
    );
    let map = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: ferroband-devices, namespace: ferroband-system}}, \
         data: {{bench.json: '{config}'}}}}"
    );
    crate::command::run_with_input(lab.kubectl()?.args(["apply", "-f", "-"]).stdout(Stdio::null()), &map)?;
    // The kubelet brings a changed volume to a pod within a minute; a new pod has it at once.
    let daemons = ["-n", "ferroband-system"];
    output(lab.kubectl()?.args(daemons).args(["rollout", "restart", "daemonset/ferroband-node"]))?;
    let wait = ["rollout", "status", "daemonset/ferroband-node", "--timeout=180s"];
    output(lab.kubectl()?.args(daemons).args(wait)).map(drop)
}

fn wait_allocatable(lab: &Lab, node: &str, step: &mut ProgressStep) -> Result<()> {
    let path = format!("jsonpath={{.status.allocatable.{}}}", RESOURCE.replace('.', "\\."));
    wait_until("the virtual functions", Duration::from_secs(60), step, || {
        let asked =
            lab.kubectl().and_then(|mut kubectl| output(kubectl.args(["get", "node", node, "-o", &path])));
        match asked.map_err(|e| format!("{e:#}"))? {
            count if count == (ADAPTERS * VFS).to_string() => Ok(()),
            count => Err(format!("{count:?} can be allocated")),
        }
    })
}

/// What the kernel says of the daemon.
struct DaemonUsage {
    process: String,
    /// In MB, which is 10^6 bytes.
    resident: f64,
    peak: f64,
    /// Of processor time, a hundredth of a second each (USER_HZ).
    ticks: f64,
}

fn read_usage(lab: &Lab, node: &str) -> Result<DaemonUsage> {
    let script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | \
        grep -q '^/usr/bin/ferroband node ' && echo Pid: ${p#/proc/} && cat $p/status && \
        echo Ticks: $(sed 's/.*) //' $p/stat | cut -d' ' -f12,13); done; true";
    let text = exec_on(lab, node, script)?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let number = |name: &str| -> Result<f64> {
        let value = field(name).with_context(|| format!("no {name} of `ferroband node` in:\n{text}"))?;
        let parts = value.split_whitespace().filter_map(|part| part.parse::<f64>().ok());
        Ok(parts.sum())
    };
    Ok(DaemonUsage {
        process: field("Pid:").unwrap_or_default().to_owned(),
        resident: number("VmRSS:")? * 1024.0 / 1e6,
        peak: number("VmHWM:")? * 1024.0 / 1e6,
        ticks: number("Ticks:")?,
    })
}

fn exec_on(lab: &Lab, node: &str, script: &str) -> Result<String> {
    output(lab.exec(node)?.args(["sh", "-c", script]).stdin(Stdio::null()))
}
