//! Installs Ferroband in the lab as a user would: with its chart, which includes the CRDs.

use super::machine::LabMachine;
use super::{Lab, node};
use crate::command::output;
use crate::progress::run_step;
use crate::{cache, image};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Installs Ferroband with simulated hardware `profile` on each node, or with the hardware of emulated nodes. With
/// `tools`, the node daemon uses the image ferroband-tools.
pub fn install(lab: &Lab, profile: &str, tools: bool) -> Result<()> {
    let emulated = lab.emulated_series().is_some();
    let product = image::build_product()?;
    let tools = if tools { Some(image::build_tools_product(&product)?) } else { None };
    run_step("image on every node", |step| {
        for name in lab.nodes()? {
            let machine = lab.node_machine(&name);
            for archive in [Some(&product.archive), tools.as_ref()].into_iter().flatten() {
                node::import_image(&machine, archive, step)?;
            }
            copy_cli_to_machine(&machine, &product.ferroband)?;
        }
        Ok(())
    })?;
    // Built before the next step, which would hide its progress.
    crate::programs::ensure_helm()?;
    let title =
        if emulated { "chart".to_string() } else { format!("chart, with simulated hardware `{profile}`") };
    run_step(title, |_| {
        let installed =
            output(kubectl_in_namespace(lab)?.args(["get", WORKLOADS[0]]).stdin(Stdio::null())).is_ok();
        let mut values = vec![("node.metricsAddress", "127.0.0.1:5711")];
        if !emulated {
            // The nodes' link to the lab's bridge also carries the simulated fabric.
            values.extend([("node.simulate", profile), ("node.simulateUplink", "eth0")]);
        }
        let mut images = Vec::new();
        for (value, image) in [("image", image::IMAGE_NAME), ("toolsImage", image::TOOLS_IMAGE_NAME)] {
            let (name, tag) = image.rsplit_once(':').context("the image has no tag")?;
            let (registry, repository) = name.split_once('/').context("the image has no registry")?;
            images.extend(
                [("registry", registry), ("repository", repository), ("tag", tag)]
                    .map(|(key, text)| format!("{value}.{key}={text}")),
            );
        }
        let mut command = lab.helm()?;
        command.stdin(Stdio::null());
        command.args(["upgrade", "--install", "ferroband"]).arg(cache::checkout().join(CHART));
        command.args(["--namespace", "ferroband-system", "--create-namespace", "--timeout=900s"]);
        let values = values.into_iter().map(|(key, value)| format!("{key}={value}"));
        for value in values.chain(images) {
            command.args(["--set-string", &value]);
        }
        if tools.is_some() {
            command.args(["--set", "verify=true"]);
        }
        if emulated {
            // One replica is enough: no test here needs a failover.
            command.args(["--set", "cluster.replicas=1"]);
        }
        output(&mut command)?;
        if emulated {
            relax_probe(lab)?;
        }
        // The image name never changes, so a new image needs an explicit restart.
        let stamp = node::archive_stamp(&product.archive)?;
        let mark = lab.folder.join("installed");
        if installed && fs::read_to_string(&mark).ok().as_ref() != Some(&stamp) {
            for daemons_of in WORKLOADS {
                output(
                    kubectl_in_namespace(lab)?.args(["rollout", "restart", daemons_of]).stdin(Stdio::null()),
                )?;
            }
        }
        for daemons_of in WORKLOADS {
            let limit = if emulated { "--timeout=900s" } else { "--timeout=180s" };
            let wait = ["rollout", "status", daemons_of, limit];
            output(kubectl_in_namespace(lab)?.args(wait).stdin(Stdio::null()))?;
        }
        fs::write(mark, stamp).context("cannot record the installation")
    })
}

/// Relaxes the readiness probe: starting a program on an emulated processor takes longer than the chart's five seconds.
fn relax_probe(lab: &Lab) -> Result<()> {
    let probe = "/spec/template/spec/containers/0/readinessProbe";
    let patch = serde_json::json!([
        {"op": "replace", "path": format!("{probe}/timeoutSeconds"), "value": 120},
        {"op": "replace", "path": format!("{probe}/periodSeconds"), "value": 30},
    ]);
    let mut kubectl = kubectl_in_namespace(lab)?;
    kubectl.args(["patch", WORKLOADS[0], "--type=json", "--patch", &patch.to_string()]);
    output(kubectl.stdin(Stdio::null())).map(drop)
}

/// Copies the CLI to the machine, for `ferroband inspect`, `ferroband sim unplug …`.
fn copy_cli_to_machine(machine: &LabMachine, program: &Path) -> Result<()> {
    let folder = machine.root().join("opt/ferroband/bin");
    let draft = folder.join("ferroband.new");
    let copy = || {
        fs::create_dir_all(&folder)?;
        fs::copy(program, &draft)?;
        // A running program cannot be overwritten.
        fs::rename(&draft, folder.join("ferroband"))
    };
    copy().with_context(|| format!("cannot copy {} to {}", program.display(), machine.name))
}

/// The chart in the checkout.
const CHART: &str = "deploy/charts/ferroband";

const WORKLOADS: [&str; 2] = ["daemonset/ferroband-node", "deployment/ferroband-cluster"];

fn kubectl_in_namespace(lab: &Lab) -> Result<Command> {
    let mut kubectl = lab.kubectl()?;
    kubectl.args(["-n", "ferroband-system"]);
    Ok(kubectl)
}
