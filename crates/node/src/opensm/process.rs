//! Processes, told apart: a pid alone may be somebody else's by now.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A process of our own user in our own PID namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it was started, in ticks since the boot: with the number, nobody else.
    start_ticks: u64,
    /// What it was started with.
    pub arguments: Vec<String>,
}

impl Process {
    /// The process with this number, if it lives.
    pub fn from_pid(pid: i32) -> Option<Self> {
        let started = start_time(pid)?;
        let text = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        Some(Self { pid, start_ticks: started, arguments: words.filter(|word| !word.is_empty()).collect() })
    }

    /// All that are ours. What a pod runs looks like whatever it likes, but neither is it in our PID namespace nor, mostly, our
    /// user's.
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

    /// Whether it still lives.
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start_ticks)
    }

    /// The processor time that it has used, in ticks.
    pub fn cpu_ticks(&self) -> u64 {
        [14, 15].into_iter().filter_map(|field| read_stat_field(self.pid, field)).sum()
    }

    /// Sends it a signal. `false` if it is gone.
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

    /// The value of an argument.
    pub fn argument(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|word| word == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }
}

fn start_time(pid: i32) -> Option<u64> {
    read_stat_field(pid, 22)
}

/// proc(5): field 3 is the state, 14 and 15 the processor time, 22 the start; the name in field 2 may have anything in it, so
/// it is read from behind.
fn read_stat_field(pid: i32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // One that is dead but not yet waited for.
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
    fn a_process_is_found_by_its_arguments_and_gone_when_it_is_dead() {
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
        // Dead, but not waited for.
        while found.is_alive() {}
        assert!(!found.signal(Signal::SIGHUP).unwrap());
        child.wait().unwrap();
        assert_eq!(Process::from_pid(found.pid).filter(|other| *other == found), None);
    }
}
