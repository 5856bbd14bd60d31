//! Running external programs; errors contain the command line and the output.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// A command without standard input.
pub fn command<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    if program == "cargo" {
        for name in std::env::vars_os().map(|(name, _)| name).filter(|name| is_package_variable(name)) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether Cargo sets this variable for a program that it runs. Build scripts that read it (e.g. ring's) run again if
/// it changes, and then half of the workspace is rebuilt; so it must be the same with and without `cargo xtask`.
fn is_package_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "OUT_DIR"
}

/// Runs the command and returns standard output; the error contains the command line and the output.
pub fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let out = command.output().with_context(|| format!("cannot run: {line}"))?;
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() {
        let stderr = String::from_utf8_lossy(&out.stderr);
        bail!("{line}: {}\n{}{}", out.status, tail(&stdout, 20), tail(&stderr, 40));
    }
    Ok(stdout)
}

/// Runs the command; output is shown only in the error.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs the command with `input` on standard input; output goes where the caller directed it.
pub fn run_with_input(command: &mut Command, input: &str) -> Result<()> {
    let line = command_line(command);
    let mut child = command.stdin(Stdio::piped()).spawn().with_context(|| format!("cannot run: {line}"))?;
    let mut stdin = child.stdin.take().with_context(|| format!("{line}: cannot open its standard input"))?;
    stdin.write_all(input.as_bytes()).with_context(|| format!("{line}: cannot write its standard input"))?;
    drop(stdin);
    let status = child.wait().with_context(|| format!("waiting for: {line}"))?;
    if status.success() { Ok(()) } else { bail!("{line}: {status}") }
}

/// Whether the command succeeds; its output is discarded.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Replaces this process with the command (execve).
pub fn exec(command: &mut Command) -> Result<i32> {
    use std::os::unix::process::CommandExt;
    let line = command_line(command);
    Err(command.stdin(Stdio::inherit()).exec()).with_context(|| format!("cannot run: {line}"))
}

/// [`run`] of a command line split at blanks, without quoting.
pub fn run_line(line: &str) -> Result<()> {
    let mut words = line.split_whitespace();
    let program = words.next().context("empty command line")?;
    run(&mut command(program, words))
}

/// The last `lines` lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|l| format!("{l}\n")).collect()
}

fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
