//! Memory and CPU time of an idle node daemon, in a lab with one simulated GPU server.

use super::BudgetCheck;
use anyhow::{Context, Result, bail};
use clap::Args;
use ferroband_lab::cluster::{Lab, LabUpArgs, down, up};
use ferroband_lab::command::output;
use ferroband_lab::progress::{ProgressStep, run_step, wait_until};
use std::process::Stdio;
use std::time::Duration;

/// The simulated hardware with eight adapters.
const PROFILE: &str = "dgx";
const ADAPTERS: usize = 8;
/// Virtual functions per adapter.
const VFS: usize = 16;
/// Memory budget.
const MAX_RESIDENT_MB: f64 = 20.0;
/// Resource name of the virtual functions.
const RESOURCE: &str = "bench.ferroband.io/vf";

/// `cargo xtask bench node`
#[derive(Args, Debug)]
pub struct BenchNodeArgs {
    /// Seconds that the daemon idles before the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    idle: u64,
    /// Keep the lab running afterwards
    #[arg(long)]
    keep: bool,
}

/// Runs the benchmark.
pub fn measure(args: &BenchNodeArgs, budget: &mut BudgetCheck) -> Result<()> {
    let name = if args.keep { "bench".to_owned() } else { format!("bench-{}", std::process::id()) };
    let lab = Lab::named(&name)?;
    let owner = (!args.keep).then(std::process::id);
    let lab_args = LabUpArgs {
        nodes: Some(1),
        install: true,
        profile: PROFILE.to_owned(),
        owner,
        ..LabUpArgs::unchanged()
    };
    let measured = up(&lab, &lab_args).and_then(|()| measure_in(&lab, args, budget));
    if args.keep {
        eprintln!("the lab keeps running: cargo xtask lab --name {name} status");
        return measured;
    }
    measured.and(down(&lab))
}

fn measure_in(lab: &Lab, args: &BenchNodeArgs, budget: &mut BudgetCheck) -> Result<()> {
    let nodes = lab.nodes()?;
    let node = nodes.first().context("the lab has no node")?;
    run_step(format!("{} virtual functions, allocatable", ADAPTERS * VFS), |step| {
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
        bail!("the daemon restarted during the measurement");
    }
    println!("ferroband node with {ADAPTERS} adapters and {} virtual functions:", ADAPTERS * VFS);
    budget.at_most("resident memory", after.resident, MAX_RESIDENT_MB, "MB");
    budget.figure("peak memory", format!("{:.1} MB", after.peak));
    let busy = (after.ticks - before.ticks) * 10.0 / args.idle.max(1) as f64;
    budget.figure("CPU time while idle", format!("{busy:.1} ms per second"));
    Ok(())
}

/// Applies a pool with all virtual functions.
fn apply_pool(lab: &Lab) -> Result<()> {
    let (prefix, name) = RESOURCE.split_once('/').context("the resource name has no prefix")?;
    let config = format!(
        r#"{{"resourceList":[{{"resourcePrefix":"{prefix}","resourceName":"{name}","selectors":[{{"devices":["101e"],"isRdma":true}}]}}]}}"#
    );
    let map = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: ferroband-devices, namespace: ferroband-system}}, \
         data: {{bench.json: '{config}'}}}}"
    );
    ferroband_lab::command::run_with_input(
        lab.kubectl()?.args(["apply", "-f", "-"]).stdout(Stdio::null()),
        &map,
    )?;
    // The kubelet updates a mounted ConfigMap within a minute; a new pod has it at once.
    let daemons = ["-n", "ferroband-system"];
    output(lab.kubectl()?.args(daemons).args(["rollout", "restart", "daemonset/ferroband-node"]))?;
    let wait = ["rollout", "status", "daemonset/ferroband-node", "--timeout=180s"];
    output(lab.kubectl()?.args(daemons).args(wait)).map(drop)
}

fn wait_allocatable(lab: &Lab, node: &str, step: &mut ProgressStep) -> Result<()> {
    let path = format!("jsonpath={{.status.allocatable.{}}}", RESOURCE.replace('.', "\\."));
    wait_until("the virtual functions", Duration::from_secs(60), step, || {
        let count =
            lab.kubectl().and_then(|mut kubectl| output(kubectl.args(["get", "node", node, "-o", &path])));
        match count.map_err(|e| format!("{e:#}"))? {
            count if count == (ADAPTERS * VFS).to_string() => Ok(()),
            count => Err(format!("{count:?} allocatable")),
        }
    })
}

/// Resource usage of the daemon, from /proc.
struct DaemonUsage {
    process: String,
    /// In MB, which is 10^6 bytes.
    resident: f64,
    peak: f64,
    /// CPU time in hundredths of a second (USER_HZ).
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
