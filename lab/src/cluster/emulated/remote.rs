//! Commands in an emulated machine: ssh from the control plane's network namespace over one shared connection.

use super::super::Lab;
use super::super::machine::LabMachine;
use crate::command::{command, exec, run};
use anyhow::{Context, Result};
use clap::Args;
use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Arguments of the hidden subcommand.
#[derive(Args, Debug)]
pub struct LabExecArgs {
    /// Name of the lab.
    #[arg(long)]
    lab: String,
    /// Name of the machine.
    machine: String,
    /// Command; quoted here, since ssh joins its words and a shell splits them again.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Replaces this process with the command in the machine.
pub fn run_in_machine(args: &LabExecArgs) -> Result<i32> {
    let lab = Lab::named(&args.lab)?;
    let machine = lab.find_machine(&args.machine)?;
    if !machine.emulated {
        return exec(machine.command()?.args(&args.command));
    }
    let mut line = String::from(
        "export PATH=/opt/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin:/lab/bin:/lab/guest HOME=/root; cd /; exec",
    );
    for word in &args.command {
        line.push_str(&format!(" '{}'", word.replace('\'', "'\\''")));
    }
    let terminal: &[&str] = if std::io::stdin().is_terminal() { &["-t"] } else { &[] };
    exec(ssh_command(&lab, &machine, terminal)?.arg(line))
}

/// Creates the lab's ssh key if missing.
pub fn ensure_key(lab: &Lab) -> Result<()> {
    if private_key_path(lab).exists() {
        return Ok(());
    }
    run(command("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f"])
        .arg(private_key_path(lab)))
}

fn private_key_path(lab: &Lab) -> PathBuf {
    lab.folder.join("key")
}

/// Public key, copied to the machines.
pub fn public_key_path(lab: &Lab) -> PathBuf {
    lab.folder.join("key.pub")
}

fn ssh_command(lab: &Lab, machine: &LabMachine, options: &[&str]) -> Result<Command> {
    let position =
        lab.nodes()?.iter().position(|n| *n == machine.name).context("the machine is not a node")?;
    let mut ssh = lab.in_network("ssh");
    ssh.args(options).arg("-i").arg(private_key_path(lab)).arg("-S").arg(machine.folder.join("ssh"));
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "GlobalKnownHostsFile=/dev/null",
        "IdentitiesOnly=yes",
        "BatchMode=yes",
        "LogLevel=ERROR",
        "ConnectTimeout=60",
    ] {
        ssh.args(["-o", option]);
    }
    ssh.arg(format!("root@{}", super::super::network::node_address(position)));
    Ok(ssh)
}

/// Keeps a connection open: a new one takes most of a second on an emulated processor. It runs in the control plane's
/// namespace and ends with it or with the machine.
pub fn ensure_connection(lab: &Lab, machine: &LabMachine) -> Result<()> {
    let check = |options: &[&str]| -> Result<bool> {
        let mut ssh = ssh_command(lab, machine, options)?;
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(ssh.status().is_ok_and(|status| status.success()))
    };
    if check(&["-O", "check"])? {
        return Ok(());
    }
    let _ = fs::remove_file(machine.folder.join("ssh"));
    // If this fails, every command opens its own connection.
    check(&["-M", "-N", "-f"]).map(drop)
}
