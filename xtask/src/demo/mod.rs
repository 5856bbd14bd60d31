//! Demonstration: a fabric, nodes, a policy, and pods of two tenants that share adapters and a subnet and are separated
//! by the fabric.

mod table;

use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::cluster::{Lab, LabUpArgs, up};
use ferroband_lab::command::{output, run_with_input, tail};
use ferroband_lab::progress::{run_step, wait_until};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};
use table::{DemoPod, list_pods};

const NAME: &str = "demo";
const TENANTS: [&str; 2] = ["red", "blue"];
const RESOURCE: &str = "spidernet.io/mellanoxibsriov";

/// Starts the demo's lab, runs the demonstration, and keeps the lab running.
pub fn demo() -> Result<()> {
    let lab = Lab::named(NAME)?;
    print_title(
        "A real Kubernetes cluster, simulated InfiniBand adapters and subnet manager (UFM), Ferroband installed from its chart",
    );
    up(
        &lab,
        &LabUpArgs { install: true, ufm: true, profile: "default".to_string(), ..LabUpArgs::unchanged() },
    )?;

    print_title("A policy creates twelve virtual functions on every node's adapter (examples/ib-sriov)");
    apply(&lab, "ib-sriov/policy.yaml")?;
    wait_vfs(&lab)?;
    let columns = "NODE:.metadata.name,KUBELET:.status.nodeInfo.kubeletVersion,SIMULATED:.metadata.labels.ferroband\\.io/simulated,\
                   FUNCTIONS:.status.allocatable.spidernet\\.io/mellanoxibsriov";
    show_kubectl(&lab, &format!("get nodes -o custom-columns={columns}"))?;

    print_title(
        "Two tenants, each with a network: same adapters, same subnet, different P_Key (examples/two-tenants)",
    );
    apply(&lab, "two-tenants/networks.yaml")?;
    apply(&lab, "two-tenants/pods.yaml")?;
    let begin = Instant::now();
    for tenant in TENANTS {
        wait_tenant_ready(&lab, tenant)?;
    }
    println!(
        "  all Ready after {:.1} s; each port was in its partition before its pod started",
        begin.elapsed().as_secs_f32()
    );
    let pods = list_pods(&lab, &TENANTS)?;
    table::print(&pods);

    print_title("Pods reach pods of their own tenant only");
    check_reachability(&lab, &pods)?;

    print_title("Desired and actual membership at the subnet manager");
    show_command(lab.ferroband()?.args(["partition", "list"]), "ferroband partition list")?;
    show_kubectl(&lab, "get addressblocks")?;

    println!(
        "\nThe lab keeps running. Try:\n  \
         cargo xtask lab --name {NAME} kubectl get pods -A -o wide\n  \
         cargo xtask lab --name {NAME} ferroband partition members\n  \
         cargo xtask lab --name {NAME} ferroband status\n  \
         cargo xtask lab --name {NAME} exec node1 -- ferroband inspect\n  \
         cargo xtask lab --name {NAME} shell node1\n\
         Take it down:\n  cargo xtask lab --name {NAME} down"
    );
    Ok(())
}

fn print_title(title: &str) {
    println!("\n▸ {title}");
    let _ = std::io::stdout().flush();
}

/// Runs kubectl; prints the command and its output.
fn show_kubectl(lab: &Lab, line: &str) -> Result<()> {
    show_command(lab.kubectl()?.args(line.split_whitespace()), &format!("kubectl {line}"))
}

fn show_command(command: &mut std::process::Command, line: &str) -> Result<()> {
    println!("  $ {line}");
    for line in output(command.stdin(Stdio::null()))?.lines() {
        println!("    {line}");
    }
    Ok(())
}

fn apply(lab: &Lab, file: &str) -> Result<()> {
    let path = cache::checkout().join("examples").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    run_with_input(lab.kubectl()?.args(["apply", "-f", "-"]), &text)
}

/// Waits until every node has twelve allocatable functions.
fn wait_vfs(lab: &Lab) -> Result<()> {
    run_step("functions on every node", |step| {
        wait_until("twelve functions on every node", Duration::from_secs(120), step, || {
            let nodes = kubectl_json(lab, &["get", "nodes", "-o", "json"]).map_err(|e| format!("{e:#}"))?;
            let items = nodes["items"].as_array().cloned().unwrap_or_default();
            let amounts: Vec<_> = items.iter().map(|node| &node["status"]["allocatable"][RESOURCE]).collect();
            if amounts.iter().all(|amount| **amount == "12") { Ok(()) } else { Err(format!("{amounts:?}")) }
        })
    })
}

fn wait_tenant_ready(lab: &Lab, tenant: &str) -> Result<()> {
    let wait = ["-n", tenant, "rollout", "status", "daemonset/worker", "--timeout=90s"];
    if output(lab.kubectl()?.args(wait).stdin(Stdio::null())).is_ok() {
        return Ok(());
    }
    let description = output(lab.kubectl()?.args(["-n", tenant, "describe", "pods"]).stdin(Stdio::null()))?;
    bail!("the pods of {tenant} are not Ready:\n{}", tail(&description, 20))
}

/// Pings between all pods; fails unless exactly the pods of one tenant reach each other.
fn check_reachability(lab: &Lab, pods: &[DemoPod]) -> Result<()> {
    for from in pods {
        for to in pods.iter().filter(|to| to.pod != from.pod) {
            let own = from.tenant == to.tenant;
            let timeout = if own { "15" } else { "2" };
            let ping = [
                "-n",
                &from.tenant,
                "exec",
                &from.pod,
                "--",
                "ping",
                "-q",
                "-c",
                "1",
                "-w",
                timeout,
                "-I",
                "net1",
            ];
            let reached =
                ferroband_lab::command::succeeds(lab.kubectl()?.args(ping).arg(&to.ip).stdin(Stdio::null()));
            let word = if reached { "reaches" } else { "does not reach" };
            println!(
                "  {}/{} on {} {word} {}/{} on {}",
                from.tenant, from.pod, from.node, to.tenant, to.pod, to.node
            );
            if reached != own {
                bail!("unexpected reachability");
            }
        }
    }
    Ok(())
}

fn kubectl_json(lab: &Lab, words: &[&str]) -> Result<Value> {
    let text = output(lab.kubectl()?.args(words).stdin(Stdio::null()))?;
    serde_json::from_str(&text).context("the output of kubectl is not JSON")
}
