//! Running other programs: what was run, what it said when it failed.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// A command from a program and its arguments, without standard input.
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

/// Whether Cargo sets this variable for a program that it runs. Build scripts that read it (ring's does) run again when it
/// is another, and half of the product is built anew: in a test, by `cargo xtask`, and without either.
fn is_package_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "OUT_DIR"
}

/// Run to the end and give back standard output; an error carries the command line and what it printed.
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

/// Run to the end, output thrown away unless it fails.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Run to the end with `input` on standard input; where its output goes is the caller's to say.
pub fn run_with_input(command: &mut Command, input: &str) -> Result<()> {
    let line = command_line(command);
    let mut child = command.stdin(Stdio::piped()).spawn().with_context(|| format!("cannot run: {line}"))?;
    let mut stdin = child.stdin.take().with_context(|| format!("{line}: no standard input"))?;
    stdin.write_all(input.as_bytes()).with_context(|| format!("{line}: does not read"))?;
    drop(stdin);
    let status = child.wait().with_context(|| format!("waiting for: {line}"))?;
    if status.success() { Ok(()) } else { bail!("{line}: {status}") }
}

/// Whether it ran and ended well; silent either way.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Become that command: its streams, its signals and its exit code are the caller's.
pub fn exec(command: &mut Command) -> Result<i32> {
    use std::os::unix::process::CommandExt;
    let line = command_line(command);
    Err(command.stdin(Stdio::inherit()).exec()).with_context(|| format!("cannot run: {line}"))
}

/// Shorthand for [`run`] of a command line split at blanks (no quoting: for fixed words only).
pub fn run_line(line: &str) -> Result<()> {
    let mut words = line.split_whitespace();
    let program = words.next().context("empty command line")?;
    run(&mut command(program, words))
}

/// The last `lines` lines of a text, newline-ended.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|l| format!("{l}\n")).collect()
}

fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
