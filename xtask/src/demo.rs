//! The product's main job, shown: two pods on two nodes with an InfiniBand network between them.

use crate::cache;
use crate::command::{feed, output, tail};
use crate::lab::{Lab, Up, up};
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

const NAME: &str = "demo";

/// Bring the demo's lab up, tell the story, leave the lab up.
pub fn demo() -> Result<()> {
    let lab = Lab::named(NAME)?;
    say("A real Kubernetes with Ferroband on simulated InfiniBand hardware");
    up(&lab, &Up { install: true, profile: "default".to_string(), ..Up::again() })?;
    kubectl(
        &lab,
        "get nodes -o custom-columns=NODE:.metadata.name,VERSION:.status.nodeInfo.kubeletVersion,\
                   SIMULATED:.metadata.labels.ferroband\\.io/simulated,RDMA:.status.allocatable.jarvice\\.com/rdma",
    )?;

    say("A network of type ipoib, and two pods that ask for it (examples/jarvice-ipoib)");
    let examples = cache::checkout().join("examples/jarvice-ipoib");
    let read = |file: &str| {
        let path = examples.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let pod = read("pod.yaml")?;
    apply(&lab, &read("network.yaml")?)?;
    apply(&lab, &pod)?;
    apply(&lab, &pod.replace("name: ipoib-test", "name: ipoib-test-2"))?;
    let begin = Instant::now();
    for pod in ["ipoib-test", "ipoib-test-2"] {
        ready(&lab, pod)?;
    }
    println!("  both Ready after {:.1} s", begin.elapsed().as_secs_f32());
    kubectl(&lab, "get pods -o wide")?;

    say("Each has the network's interface with an address, and the node's InfiniBand devices");
    kubectl(&lab, "exec ipoib-test -- ip -br address")?;
    kubectl(&lab, "exec ipoib-test -- ls -l /dev/infiniband")?;
    let template = "jsonpath={.metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status}";
    kubectl(&lab, &format!("get pod ipoib-test -o {template}"))?;

    say("They reach each other over it, from node to node");
    let there = address(&lab, "ipoib-test-2")?;
    kubectl(&lab, &format!("exec ipoib-test -- ping -c 3 -w 15 -I net1 {there}"))?;

    say("Addresses are entries of granules, one object for sixteen of them");
    kubectl(&lab, "get addressgranules")?;

    println!(
        "\nThe lab is left up. Look around:\n  \
         cargo xtask lab --name {NAME} kubectl get pods -A\n  \
         cargo xtask lab --name {NAME} shell node1\n  \
         cargo xtask lab --name {NAME} exec node1 -- ip -d link show ibs5f0\n\
         Take it down:\n  cargo xtask lab --name {NAME} down"
    );
    Ok(())
}

fn say(title: &str) {
    println!("\n▸ {title}");
    let _ = std::io::stdout().flush();
}

/// Run kubectl and show both the command and what it printed.
fn kubectl(lab: &Lab, line: &str) -> Result<()> {
    println!("  $ kubectl {line}");
    let text = output(lab.kubectl()?.args(line.split_whitespace()).stdin(Stdio::null()))?;
    for line in text.lines() {
        println!("    {line}");
    }
    Ok(())
}

fn apply(lab: &Lab, manifest: &str) -> Result<()> {
    feed(lab.kubectl()?.args(["apply", "-f", "-"]), manifest)
}

fn ready(lab: &Lab, pod: &str) -> Result<()> {
    let wait = ["wait", "--for=condition=Ready", "--timeout=90s", &format!("pod/{pod}")];
    if output(lab.kubectl()?.args(wait).stdin(Stdio::null())).is_ok() {
        return Ok(());
    }
    let told = output(lab.kubectl()?.args(["describe", "pod", pod]).stdin(Stdio::null()))?;
    bail!("pod {pod} does not get Ready:\n{}", tail(&told, 20))
}

/// The pod's address on net1, asked inside it; it may have to wait a moment after Ready.
fn address(lab: &Lab, pod: &str) -> Result<String> {
    let begin = Instant::now();
    loop {
        let asked = ["exec", pod, "--", "ip", "-4", "-o", "address", "show", "dev", "net1"];
        let text = output(lab.kubectl()?.args(asked).stdin(Stdio::null()))?;
        if let Some(found) = text.split_whitespace().skip_while(|w| *w != "inet").nth(1) {
            return Ok(found.split('/').next().unwrap_or(found).to_string());
        }
        if begin.elapsed() > Duration::from_secs(10) {
            bail!("pod {pod} has no address on net1:\n{text}");
        }
    }
}
