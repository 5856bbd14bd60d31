//! Finds and signals processes. A process is identified by PID and start time, because PIDs are reused.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A process in the daemon's PID namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// Start time in clock ticks since boot. It tells apart processes that had the same PID one after
    /// another.
    start_ticks: u64,
    pub arguments: Vec<String>,
}

impl Process {
    /// Returns the process with this PID, if it is alive.
    pub fn from_pid(pid: i32) -> Option<Self> {
        let start_ticks = start_time(pid)?;
        let text = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let arguments =
            text.split(|byte| *byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned());
        Some(Self {
            pid,
            start_ticks,
            arguments: arguments.filter(|argument| !argument.is_empty()).collect(),
        })
    }

    /// Lists the processes that run as the daemon's user in the daemon's PID namespace. Processes of pods are
    /// excluded: they can imitate any command line, but they run in other PID namespaces.
    pub fn list_own() -> Vec<Self> {
        let own = fs::read_link("/proc/self/ns/pid").ok();
        let user = fs::metadata("/proc/self").map(|meta| meta.uid()).ok();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == own
                && fs::metadata(format!("/proc/{pid}")).map(|meta| meta.uid()).ok() == user
        })
        .filter_map(Self::from_pid)
        .collect()
    }

    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start_ticks)
    }

    /// CPU time used in user and kernel mode, in clock ticks.
    pub fn cpu_ticks(&self) -> u64 {
        [14, 15].into_iter().filter_map(|field| read_stat_field(self.pid, field)).sum()
    }

    /// Sends a signal. Returns `false` if the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<bool, Errno> {
        if !self.is_alive() {
            return Ok(false);
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) => Ok(true),
            Err(Errno::ESRCH) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the argument that follows `name` on the command line.
    pub fn argument(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|word| word == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }
}

fn start_time(pid: i32) -> Option<u64> {
    read_stat_field(pid, 22)
}

/// Reads a field of `/proc/<pid>/stat`, numbered as in proc(5): 14 and 15 are the CPU time, 22 is the start
/// time. The program name in field 2 may contain anything, so parsing starts at the last closing parenthesis.
/// Returns `None` for a zombie.
fn read_stat_field(pid: i32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Field 3 is the state: a zombie (Z) or dead (X) process has exited.
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return None;
    }
    fields.get(field - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn process_is_found_by_its_arguments_until_it_is_dead() {
        let mark = format!("{}.5", 77_000 + std::process::id());
        let mut child = Command::new("sleep").arg(&mark).spawn().unwrap();
        let found = loop {
            let found =
                Process::list_own().into_iter().find(|process| process.argument("sleep") == Some(&mark));
            if let Some(found) = found {
                break found;
            }
        };
        assert_eq!(found.pid, child.id().cast_signed());
        assert!(found.is_alive() && found.signal(Signal::SIGKILL).unwrap());
        // The killed child is a zombie until it is reaped, and must not count as alive.
        while found.is_alive() {}
        assert!(!found.signal(Signal::SIGHUP).unwrap());
        child.wait().unwrap();
        assert_eq!(Process::from_pid(found.pid).filter(|other| *other == found), None);
    }
}
