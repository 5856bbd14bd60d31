//! A simulated UFM as subnet manager of a lab with simulated hardware, configured as in document 003.

use super::Lab;
use crate::command::{command, output, run};
use crate::progress::{ProgressStep, run_step, wait_until};
use crate::{cache, image};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Address of the control plane in the lab's network, and UFM's port.
const ADDRESS: &str = "10.77.0.1";
const PORT: u16 = 443;
const PROGRAM: &str = "simulated-ufm";

/// Starts UFM if needed and configures Ferroband to use it.
pub fn ensure(lab: &Lab) -> Result<()> {
    run_step("simulated UFM", |step| {
        let objects = lab.folder.join("ufm.json");
        if !is_reachable(lab) {
            let _ = fs::remove_file(&objects);
            start(lab, &objects, step)?;
        }
        run(lab.kubectl()?.args(["apply", "-f"]).arg(&objects))
    })
}

fn is_reachable(lab: &Lab) -> bool {
    let mut ask = lab.in_network("curl");
    ask.args(["-sk", "--max-time", "3", "-o", "/dev/null", &format!("https://{ADDRESS}:{PORT}/")]);
    crate::command::succeeds(&mut ask)
}

/// Starts UFM; it exits when the lab is removed.
fn start(lab: &Lab, objects: &Path, step: &mut ProgressStep) -> Result<()> {
    let build = ["build", "--quiet", "--package", "ferroband-testbed", "--bin", PROGRAM];
    output(command("cargo", build).current_dir(cache::checkout()))?;
    let program = image::cargo_target_dir()?.join("debug").join(PROGRAM);
    let log = fs::File::create(lab.folder.join("ufm.log")).context("cannot create UFM's log")?;
    let mut command = Command::new(program);
    command.arg(format!("{ADDRESS}:{PORT}")).arg(format!("/run/netns/{}", lab.name_prefix())).arg(objects);
    command.arg("--").arg(super::internal_program()).args(["lab-exec", "--lab", lab.name()]);
    command.arg("--").args(lab.nodes()?);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let mut child = command.spawn().context("cannot start the simulated UFM")?;
    wait_until("the simulated UFM", Duration::from_secs(30), step, || match child.try_wait() {
        Ok(None) if objects.exists() => Ok(()),
        Ok(None) => Err("not listening yet".to_owned()),
        Ok(Some(end)) => Err(format!("exited with {end}; see {}", lab.folder.join("ufm.log").display())),
        Err(e) => Err(e.to_string()),
    })
}
