//! Ferroband in the lab, put in as a user would: definitions, then manifests, both from the product itself.

use super::{Lab, node};
use crate::command::output;
use crate::image;
use crate::progress::step;
use anyhow::{Context, Result};
use std::io::Write;
use std::process::{Command, Stdio};

/// Install it with simulated hardware of `profile` on each node.
pub fn install(lab: &Lab, profile: &str) -> Result<()> {
    let product = image::product()?;
    step("image on every node", |step| {
        for name in lab.nodes()? {
            node::import(&lab.node(&name), &product.archive, step)?;
        }
        Ok(())
    })?;
    let program = product.ferroband;
    step("definitions", |_| {
        let mut apply = lab.in_network(&program.to_string_lossy());
        output(apply.args(["crds", "apply"]).env("KUBECONFIG", lab.kubeconfig()).stdin(Stdio::null()))
            .map(drop)
    })?;
    step(format!("daemons, with simulated hardware `{profile}`"), |_| {
        // The nodes' cable to the lab's bridge also carries the simulated fabric between them.
        let print = ["manifests", "--image", image::NAME, "--simulate", profile, "--simulate-uplink", "eth0"];
        let manifests = output(Command::new(&program).args(print).stdin(Stdio::null()))?;
        feed(lab.kubectl()?.args(["apply", "-f", "-"]), &manifests)?;
        // A lab that is installed again has a new image under the old name.
        let mut restart = lab.kubectl()?;
        restart.args(["-n", "ferroband-system", "rollout", "restart", "daemonset/ferroband-node"]);
        output(restart.stdin(Stdio::null()))?;
        let mut wait = lab.kubectl()?;
        wait.args([
            "-n",
            "ferroband-system",
            "rollout",
            "status",
            "daemonset/ferroband-node",
            "--timeout=120s",
        ]);
        output(wait.stdin(Stdio::null())).map(drop)
    })
}

fn feed(command: &mut Command, input: &str) -> Result<()> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("cannot run kubectl")?;
    child
        .stdin
        .take()
        .context("no standard input")?
        .write_all(input.as_bytes())
        .context("kubectl does not read")?;
    let status = child.wait().context("waiting for kubectl")?;
    if status.success() { Ok(()) } else { anyhow::bail!("kubectl apply: {status}") }
}
