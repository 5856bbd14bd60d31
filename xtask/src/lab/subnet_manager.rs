//! A subnet manager for a lab with simulated hardware: UFM, simulated, and the cluster told of it as document 003 does.

use super::Lab;
use crate::command::{command, feed, output};
use crate::progress::{Step, step, wait_until};
use crate::{cache, image};
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The control plane's address in the lab's network, and UFM's port.
const ADDRESS: &str = "10.77.0.1";
const PORT: u16 = 443;
const PROGRAM: &str = "simulated-ufm";

/// Have it run, and let Ferroband use it.
pub fn ensure(lab: &Lab) -> Result<()> {
    step("simulated UFM", |step| {
        let certificate = lab.folder.join("ufm.crt");
        if !answers(lab) {
            let _ = fs::remove_file(&certificate);
            start(lab, &certificate, step)?;
        }
        let pin = fs::read_to_string(&certificate).context("UFM has no certificate")?;
        for object in told(&pin) {
            feed(lab.kubectl()?.args(["apply", "-f", "-"]), &object.to_string())?;
        }
        Ok(())
    })
}

fn answers(lab: &Lab) -> bool {
    let mut ask = lab.in_network("curl");
    ask.args(["-sk", "--max-time", "3", "-o", "/dev/null", &format!("https://{ADDRESS}:{PORT}/")]);
    crate::command::succeeds(&mut ask)
}

/// It ends by itself when the lab is taken down.
fn start(lab: &Lab, certificate: &Path, step: &mut Step) -> Result<()> {
    let build = ["build", "--quiet", "--package", "ferroband-testbed", "--bin", PROGRAM];
    output(command("cargo", build).current_dir(cache::checkout()))?;
    let program = image::target_folder()?.join("debug").join(PROGRAM);
    let log = fs::File::create(lab.folder.join("ufm.log")).context("cannot make UFM's log")?;
    let own = std::env::current_exe().context("this program has no name")?;
    let mut command = Command::new(program);
    command.arg(format!("{ADDRESS}:{PORT}")).arg(format!("/run/netns/{}", lab.prefix())).arg(certificate);
    command.arg("--").arg(own).args(["lab", "--name", lab.name(), "exec", "--"]).args(lab.nodes()?);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let mut child = command.spawn().context("cannot start the simulated UFM")?;
    wait_until("the simulated UFM", Duration::from_secs(30), step, || match child.try_wait() {
        Ok(None) if certificate.exists() => Ok(()),
        Ok(None) => Err("it does not listen yet".to_owned()),
        Ok(Some(end)) => Err(format!("it has ended: {end}; see {}", lab.folder.join("ufm.log").display())),
        Err(e) => Err(e.to_string()),
    })
}

/// The Secret of document 003 and the ConfigMap of ib-kubernetes.
fn told(certificate: &str) -> [serde_json::Value; 2] {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "ib-kubernetes-ufm-secret", "namespace": "kube-system"},
        "stringData": {
            "UFM_USER": "admin", "UFM_PASSWORD": "12345", "UFM_ADDRESS": ADDRESS, "UFM_CERTIFICATE": certificate,
        },
    });
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ib-kubernetes-config", "namespace": "kube-system"},
        "data": {
            "DAEMON_SM_PLUGIN": "ufm", "DAEMON_PERIODIC_UPDATE": "5",
            "GUID_POOL_RANGE_START": "02:00:00:00:00:00:00:00", "GUID_POOL_RANGE_END": "02:FF:FF:FF:FF:FF:FF:FF",
        },
    });
    [secret, config]
}
