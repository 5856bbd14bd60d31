//! Running foreign CNI binaries.

use crate::ipc::plan::PlanStep;
use crate::protocol::{CniCommand, Error, PluginError, PluginType};
use crate::state::Lock;
use nix::errno::Errno;
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout and interval for retrying a binary that is being replaced ("text file busy").
const TEXT_BUSY_RETRY: (Duration, Duration) = (Duration::from_secs(6), Duration::from_millis(50));

/// The `CNI_…` variables for plugins of one attachment, and the lock that they inherit.
#[derive(Clone, Debug)]
pub struct PluginEnv<'a> {
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// `CNI_NETNS`; empty if the namespace is gone.
    pub netns: &'a str,
    /// `CNI_IFNAME`.
    pub ifname: &'a str,
    /// `CNI_ARGS`.
    pub args: Cow<'a, str>,
    /// `CNI_PATH`.
    pub path: &'a str,
    /// Lock of the call, inherited by the plugin.
    pub lock: Option<&'a Lock>,
}

/// Find a plugin: the first regular file of that name in the directories of `CNI_PATH`.
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

/// Fail if the plugin of a step is not installed, or if it executes one of Ferroband's IPAM plugins and that alias is
/// not installed. The plugin's own error would not say how to install the alias.
pub fn find_step_plugins(step: &PlanStep, path: &str) -> Result<(), Error> {
    let plugin = step.plugin();
    find_plugin(plugin, path)?;
    let ipam = step.interface().ok().and_then(|interface| interface.ipam_plugin);
    match ipam.filter(|ipam| PluginType::is_daemon_ipam(Some(ipam)) && find_plugin(ipam, path).is_err()) {
        Some(alias) => {
            Err(Error::NoAlias { plugin: plugin.to_owned(), alias: alias.to_owned(), path: path.to_owned() })
        }
        None => Ok(()),
    }
}

/// Run `plugin` and return its standard output.
pub fn run(plugin: &str, command: CniCommand, env: &PluginEnv<'_>, stdin: &[u8]) -> Result<Vec<u8>, Error> {
    let file = find_plugin(plugin, env.path)?;
    let failed = |source| Error::Exec { file: file.clone(), source };
    let child = spawn_plugin(&file, command, env).map_err(failed)?;
    let output = write_stdin_and_wait(child, stdin).map_err(failed)?;
    if !output.status.success() {
        let reply = PluginError::from_output(&output);
        return Err(Error::Plugin { plugin: plugin.to_owned(), command, reply });
    }
    // Pass warnings of a successful plugin to the runtime's log.
    let _ = io::stderr().write_all(&output.stderr);
    Ok(output.stdout)
}

/// Run `plugin` for an ADD and return its result.
pub fn add(plugin: &str, env: &PluginEnv<'_>, stdin: &[u8]) -> Result<Value, Error> {
    let output = run(plugin, CniCommand::Add, env, stdin)?;
    let malformed = |source| Error::PluginOutput { plugin: plugin.to_owned(), source };
    serde_json::from_slice(&output).map_err(malformed)
}

fn spawn_plugin(file: &Path, command: CniCommand, env: &PluginEnv<'_>) -> io::Result<Child> {
    let (limit, pause) = TEXT_BUSY_RETRY;
    let end = Instant::now() + limit;
    let mut program = process::Command::new(file);
    program
        .env("CNI_COMMAND", command.as_str())
        .env("CNI_CONTAINERID", env.container)
        .env("CNI_NETNS", env.netns)
        .env("CNI_IFNAME", env.ifname)
        .env("CNI_ARGS", env.args.as_ref())
        .env("CNI_PATH", env.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    loop {
        let guard = env.lock.map(Lock::inherit_to_children);
        let started = program.spawn();
        drop(guard);
        match started {
            Err(error) if error.raw_os_error() == Some(Errno::ETXTBSY as i32) && Instant::now() < end => {
                thread::sleep(pause);
            }
            other => return other,
        }
    }
}

/// Write `stdin` while reading both outputs, so that neither side blocks.
fn write_stdin_and_wait(mut child: Child, stdin: &[u8]) -> io::Result<Output> {
    let pipe = child.stdin.take();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = pipe.map_or(Ok(()), |mut pipe| pipe.write_all(stdin));
            // A plugin may exit without reading its standard input.
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
