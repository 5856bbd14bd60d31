//! Running somebody else's CNI binary.

use crate::lock::Lock;
use crate::{CniCommand, Error};
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a binary that is being replaced ("text file busy") is waited for, and how often it is tried.
const TEXT_BUSY_RETRY: (Duration, Duration) = (Duration::from_secs(6), Duration::from_millis(50));

/// The surroundings in which plugins of one attachment run: what becomes their `CNI_…` variables.
#[derive(Clone, Debug)]
pub struct PluginEnv<'a> {
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// `CNI_NETNS`; empty when it is gone.
    pub netns: &'a str,
    /// `CNI_IFNAME`.
    pub ifname: &'a str,
    /// `CNI_ARGS`.
    pub args: Cow<'a, str>,
    /// `CNI_PATH`.
    pub path: &'a str,
    /// The lock of the call, which the plugin inherits.
    pub lock: Option<&'a Lock>,
}

/// What a plugin said when it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PluginError {
    /// The code, by the specification or the plugin's own.
    #[serde(default)]
    pub code: u32,
    /// What went wrong.
    #[serde(default)]
    pub msg: String,
    /// More of it.
    #[serde(default)]
    pub details: String,
}

impl PluginError {
    /// Whether it is one of STATUS's two answers (SPEC 1.1.0: 50 and 51).
    pub(crate) fn is_status(&self) -> bool {
        matches!(self.code, 50 | 51)
    }

    /// All of it in one line.
    pub(crate) fn text(&self) -> String {
        if self.details.is_empty() { self.msg.clone() } else { format!("{}; {}", self.msg, self.details) }
    }

    fn from_output(output: &Output) -> Self {
        if let Ok(answer) = serde_json::from_slice::<Self>(&output.stdout)
            && !(answer.msg.is_empty() && answer.code == 0)
        {
            return answer;
        }
        // Not what the specification wants; what it printed is still the best clue.
        let texts =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let said: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let msg = if said.is_empty() { output.status.to_string() } else { said.join(" / ") };
        Self { code: 0, msg, details: String::new() }
    }
}

/// The binary called `plugin`: the first regular file of that name in the folders of `CNI_PATH`.
pub fn find_plugin(plugin: &str, path: &str) -> Result<PathBuf, Error> {
    if plugin.is_empty() || plugin.contains('/') || plugin == ".." || plugin == "." {
        return Err(Error::PluginName { plugin: plugin.to_owned() });
    }
    std::env::split_paths(path)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.join(plugin))
        .find(|file| fs::metadata(file).is_ok_and(|found| found.is_file()))
        .ok_or_else(|| Error::NoPlugin { plugin: plugin.to_owned(), path: path.to_owned() })
}

/// Run `plugin` and return what it printed.
pub fn run(
    plugin: &str,
    command: CniCommand,
    around: &PluginEnv<'_>,
    stdin: &[u8],
) -> Result<Vec<u8>, Error> {
    let file = find_plugin(plugin, around.path)?;
    let failed = |source| Error::Exec { file: file.clone(), source };
    let child = spawn_plugin(&file, command, around).map_err(failed)?;
    let output = write_stdin_and_wait(child, stdin).map_err(failed)?;
    if !output.status.success() {
        let answer = PluginError::from_output(&output);
        return Err(Error::Plugin { plugin: plugin.to_owned(), command, answer });
    }
    // Warnings of a plugin that succeeded belong in the runtime's log.
    let _ = io::stderr().write_all(&output.stderr);
    Ok(output.stdout)
}

/// Run `plugin` for an ADD and return its result.
pub fn add(plugin: &str, around: &PluginEnv<'_>, stdin: &[u8]) -> Result<Value, Error> {
    let output = run(plugin, CniCommand::Add, around, stdin)?;
    let malformed = |source| Error::PluginOutput { plugin: plugin.to_owned(), source };
    serde_json::from_slice(&output).map_err(malformed)
}

fn spawn_plugin(file: &Path, command: CniCommand, around: &PluginEnv<'_>) -> io::Result<Child> {
    let (limit, pause) = TEXT_BUSY_RETRY;
    let end = Instant::now() + limit;
    let mut program = process::Command::new(file);
    program
        .env("CNI_COMMAND", command.as_str())
        .env("CNI_CONTAINERID", around.container)
        .env("CNI_NETNS", around.netns)
        .env("CNI_IFNAME", around.ifname)
        .env("CNI_ARGS", around.args.as_ref())
        .env("CNI_PATH", around.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    loop {
        let lent = around.lock.map(Lock::inherit_to_children);
        let started = program.spawn();
        drop(lent);
        match started {
            Err(error) if error.raw_os_error() == Some(Errno::ETXTBSY as i32) && Instant::now() < end => {
                thread::sleep(pause);
            }
            other => return other,
        }
    }
}

/// Write `stdin` while reading both outputs, so that neither side waits for the other.
fn write_stdin_and_wait(mut child: Child, stdin: &[u8]) -> io::Result<Output> {
    let pipe = child.stdin.take();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = pipe.map_or(Ok(()), |mut pipe| pipe.write_all(stdin));
            // A plugin may answer without reading what it does not need.
            written.or_else(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error),
            })
        });
        let output = child.wait_with_output();
        match writer.join() {
            Ok(written) => written.and(output),
            Err(_) => output,
        }
    })
}

#[cfg(test)]
mod tests;
