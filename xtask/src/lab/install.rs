//! Ferroband in the lab, put in as a user would: definitions, then manifests, both from the product itself.

use super::machine::Machine;
use super::{Lab, node};
use crate::command::{feed, output};
use crate::image;
use crate::progress::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Install it: with simulated hardware of `profile` on each node, or with what the kernel of emulated nodes has.
pub fn install(lab: &Lab, profile: &str) -> Result<()> {
    let emulated = lab.emulated().is_some();
    let product = image::product()?;
    step("image on every node", |step| {
        for name in lab.nodes()? {
            let machine = lab.node(&name);
            node::import(&machine, &product.archive, step)?;
            hand_out(&machine, &product.ferroband)?;
        }
        Ok(())
    })?;
    let program = product.ferroband;
    step("definitions", |_| {
        let mut apply = lab.in_network(&program.to_string_lossy());
        output(apply.args(["crds", "apply"]).env("KUBECONFIG", lab.kubeconfig()).stdin(Stdio::null()))
            .map(drop)
    })?;
    let title = if emulated {
        "daemons".to_string()
    } else {
        format!("daemons, with simulated hardware `{profile}`")
    };
    step(title, |_| {
        let mut print = vec!["manifests", "--image", image::NAME];
        if !emulated {
            // The nodes' cable to the lab's bridge also carries the simulated fabric between them.
            print.extend(["--simulate", profile, "--simulate-uplink", "eth0"]);
        }
        let more = ["--metrics-address", "127.0.0.1:5711"];
        let manifests = output(Command::new(&program).args(print).args(more).stdin(Stdio::null()))?;
        let there = output(daemons(lab)?.args(["get", DAEMONS[0]]).stdin(Stdio::null())).is_ok();
        feed(lab.kubectl()?.args(["apply", "-f", "-"]).stdout(Stdio::null()), &manifests)?;
        // The image has one name for ever; a new one under it must be told.
        let stamp = node::stamp(&product.archive)?;
        let mark = lab.folder.join("installed");
        if there && fs::read_to_string(&mark).ok().as_ref() != Some(&stamp) {
            for daemons_of in DAEMONS {
                output(daemons(lab)?.args(["rollout", "restart", daemons_of]).stdin(Stdio::null()))?;
            }
        }
        for daemons_of in DAEMONS {
            let limit = if emulated { "--timeout=900s" } else { "--timeout=180s" };
            let wait = ["rollout", "status", daemons_of, limit];
            output(daemons(lab)?.args(wait).stdin(Stdio::null()))?;
        }
        fs::write(mark, stamp).context("cannot remember the installation")
    })
}

/// For people on the node: `ferroband inspect`, `ferroband sim unplug …`.
fn hand_out(machine: &Machine, program: &Path) -> Result<()> {
    let folder = machine.root().join("opt/ferroband/bin");
    let draft = folder.join("ferroband.new");
    let copy = || {
        fs::create_dir_all(&folder)?;
        fs::copy(program, &draft)?;
        // One that runs cannot be written over.
        fs::rename(&draft, folder.join("ferroband"))
    };
    copy().with_context(|| format!("cannot put {} on {}", program.display(), machine.name))
}

const DAEMONS: [&str; 2] = ["daemonset/ferroband-node", "deployment/ferroband-cluster"];

fn daemons(lab: &Lab) -> Result<Command> {
    let mut kubectl = lab.kubectl()?;
    kubectl.args(["-n", "ferroband-system"]);
    Ok(kubectl)
}
