//! Builds and runs `ferroband-scale`, which links the daemons' code.

use super::report::{LeaderRow, MemberPhase, ModelRow};
use anyhow::{Context, Result, bail};
use ferroband_lab::cluster::Lab;
use ferroband_lab::command::{command, output};
use ferroband_lab::progress::run_step;
use ferroband_lab::{cache, workspace};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Builds the program and returns its path.
pub fn build(profile: &str) -> Result<PathBuf> {
    run_step(format!("building ferroband-scale ({profile})"), |_| {
        let args = ["build", "--quiet", "--package", "ferroband-scale", "--profile", profile];
        output(command("cargo", args).current_dir(cache::checkout()))?;
        let metadata = workspace::metadata()?;
        let folder = metadata["target_directory"].as_str().context("cargo metadata has no target folder")?;
        let folder = Path::new(folder).join(if profile == "dev" { "debug" } else { profile });
        Ok(folder.join("ferroband-scale"))
    })
}

/// Runs the model.
pub fn run_model(program: &Path, nodes: &[usize]) -> Result<Vec<ModelRow>> {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    run_step(format!("model of {} nodes", nodes.join(", ")), |_| {
        let text = output(Command::new(program).args(["model", "--nodes", &nodes.join(",")]))?;
        text.lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("unexpected: {line}")))
            .collect()
    })
}

/// Runs the load test of the leader with `ferroband`.
pub fn run_leader(program: &Path, ferroband: &Path, nodes: usize) -> Result<LeaderRow> {
    run_step(format!("leader of {nodes} nodes"), |_| {
        let (nodes, blocks) = (nodes.to_string(), (nodes * 5 / 2).to_string());
        let mut command = Command::new(program);
        command.args(["leader", "--nodes", &nodes, "--blocks", &blocks, "--program"]).arg(ferroband);
        let text = output(command.stderr(Stdio::inherit()))?;
        serde_json::from_str(&text).with_context(|| format!("unexpected: {text}"))
    })
}

/// Members in one process in the lab's network; they end when it is dropped.
pub struct MembersProcess {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl MembersProcess {
    pub fn start(lab: &Lab, program: &Path) -> Result<Self> {
        // Without HTTP/2 each member has a connection per watch.
        let script = "ulimit -n \"$(ulimit -H -n)\" && exec \"$0\" members";
        let mut command = lab.in_network("sh");
        command.args(["-c", script]).arg(program).env("KUBECONFIG", lab.kubeconfig());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the members")?;
        let commands = child.stdin.take().context("the members have no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("the members have no standard output")?);
        Ok(Self { child, commands, answers })
    }

    /// Runs one command and returns its figures.
    pub fn run(&mut self, command: &str) -> Result<MemberPhase> {
        writeln!(self.commands, "{command}").context("cannot send a command to the members")?;
        self.commands.flush()?;
        let mut line = String::new();
        if self.answers.read_line(&mut line).context("cannot read the members' answer")? == 0 {
            bail!("the members ended at `{command}`: {}", self.child.wait()?);
        }
        serde_json::from_str(&line).with_context(|| format!("unexpected answer to `{command}`: {line}"))
    }
}

impl Drop for MembersProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
