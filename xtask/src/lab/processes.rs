//! The programs of a machine: started once, found again by their pid files, restarted when they died.

use super::machine::LabMachine;
use anyhow::{Context, Result};
use std::collections::BTreeSet;

/// One program of a machine.
pub struct LabProgram {
    /// Its name: of the file, the log and the pid file.
    pub name: &'static str,
    /// Its arguments.
    pub args: Vec<String>,
}

impl LabProgram {
    /// A program with arguments.
    pub fn new<S: Into<String>>(name: &'static str, args: impl IntoIterator<Item = S>) -> Self {
        Self { name, args: args.into_iter().map(Into::into).collect() }
    }
}

/// Which programs of the machine run. The kernel cuts a process's name at 15 bytes.
pub fn running_programs(machine: &LabMachine) -> Result<BTreeSet<String>> {
    let script = "for f in /run/lab/*.pid; do [ -e \"$f\" ] || continue; \
        n=${f##*/}; n=${n%.pid}; p=$(cat \"$f\"); \
        [ \"$(cat /proc/$p/comm 2>/dev/null)\" = \"$(printf %.15s \"$n\")\" ] && \
        ! grep -q '^State:.Z' /proc/$p/status && echo \"$n\"; done; true";
    Ok(machine.run_script(script)?.split_whitespace().map(str::to_string).collect())
}

/// Start a program in the background, until it is there for [`alive`] to see; its output goes to its log.
pub fn start(machine: &LabMachine, program: &LabProgram) -> Result<()> {
    let args: String = program.args.iter().map(|a| format!(" {}", shell_quote(a))).collect();
    let name = program.name;
    let script = format!(
        "mkdir -p /run/lab /var/log/lab; setsid {name}{args} </dev/null >>/var/log/lab/{name}.log 2>&1 & \
         p=$!; echo $p > /run/lab/{name}.pid; t=0; \
         while [ $t -lt 100 ] && [ \"$(cat /proc/$p/comm)\" != \"$(printf %.15s {name})\" ]; do sleep 0.05; t=$((t+1)); done"
    );
    machine.run_script(&script).map(drop).with_context(|| format!("cannot start {name} on {}", machine.name))
}

/// Start those that do not run; whether any was started.
pub fn ensure(machine: &LabMachine, programs: &[LabProgram]) -> Result<bool> {
    let running = running_programs(machine)?;
    let mut started = false;
    for program in programs.iter().filter(|p| !running.contains(p.name)) {
        start(machine, program)?;
        started = true;
    }
    Ok(started)
}

/// An error with the end of its log for the first program that has fallen over.
pub fn check_running(machine: &LabMachine, names: &[&str]) -> Result<(), String> {
    let running = running_programs(machine).map_err(|e| format!("{e:#}"))?;
    match names.iter().find(|n| !running.contains(**n)) {
        None => Ok(()),
        Some(name) => {
            let log = std::fs::read_to_string(machine.log(name)).unwrap_or_default();
            Err(format!("{name} on {} has ended:\n{}", machine.name, crate::command::tail(&log, 5)))
        }
    }
}

fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
