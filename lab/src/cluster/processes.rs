//! Programs of a machine: started once, found by their PID files, restarted if they died.

use super::machine::LabMachine;
use anyhow::{Context, Result};
use std::collections::BTreeSet;

/// A program of a machine.
pub struct LabProgram {
    /// Name of the executable, the log and the PID file.
    pub name: &'static str,
    pub args: Vec<String>,
}

impl LabProgram {
    pub fn new<S: Into<String>>(name: &'static str, args: impl IntoIterator<Item = S>) -> Self {
        Self { name, args: args.into_iter().map(Into::into).collect() }
    }
}

/// Running programs of the machine. The kernel truncates process names to 15 bytes.
pub fn running_programs(machine: &LabMachine) -> Result<BTreeSet<String>> {
    let script = "for f in /run/lab/*.pid; do [ -e \"$f\" ] || continue; \
        n=${f##*/}; n=${n%.pid}; p=$(cat \"$f\"); \
        [ \"$(cat /proc/$p/comm 2>/dev/null)\" = \"$(printf %.15s \"$n\")\" ] && \
        ! grep -q '^State:.Z' /proc/$p/status && echo \"$n\"; done; true";
    Ok(machine.run_script(script)?.split_whitespace().map(str::to_string).collect())
}

/// Starts a program in the background and waits until [`alive`] finds it; output goes to its log.
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

/// Starts programs that do not run; returns whether any was started.
pub fn ensure(machine: &LabMachine, programs: &[LabProgram]) -> Result<bool> {
    let running = running_programs(machine)?;
    let mut started = false;
    for program in programs.iter().filter(|p| !running.contains(p.name)) {
        start(machine, program)?;
        started = true;
    }
    Ok(started)
}

/// Fails with the end of the log of the first program that does not run.
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
