//! Starts, finds and stops opensm.

use super::{OpensmProgram, process::Process};
use ferroband_model::Guid;
use nix::sys::signal::Signal;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How long opensm may take to start, and how long it may take to exit before it is killed. opensm can hang
/// if its port is gone.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// A running opensm that this or an earlier daemon started.
pub struct OpensmHandle {
    pub process: Process,
    /// The child process, which must be reaped when it exits; `None` if an earlier daemon started opensm.
    child: Option<Child>,
}

impl OpensmHandle {
    /// Finds an opensm that an earlier daemon started. At most one is running, because a port accepts only
    /// one subnet manager.
    pub fn find_running(program: &OpensmProgram) -> Option<Self> {
        let [flag, file] = program.identifying_arguments();
        let is_ours = |process: &Process| process.argument(&flag) == Some(&file);
        let process = Process::list_own().into_iter().find(is_ours)?;
        info!(pid = process.pid, "adopted the running opensm");
        Some(Self { process, child: None })
    }

    pub fn start(program: &OpensmProgram, port: Guid) -> Result<Self, String> {
        let mut command = program.start_command(port).map_err(|error| error.to_string())?;
        // opensm gets its own process group, so that Ctrl-C in a terminal does not reach it.
        let mut child = command.process_group(0).spawn().map_err(|error| error.to_string())?;
        let pid = child.id().cast_signed();
        // Wait until the child has called exec(2). Before that, /proc shows our own command line.
        let [flag, file] = program.identifying_arguments();
        let until = Instant::now() + GRACE_PERIOD;
        while Instant::now() < until {
            match Process::from_pid(pid) {
                Some(process) if process.argument(&flag) == Some(&file) => {
                    info!(pid, %port, "opensm started");
                    return Ok(Self { process, child: Some(child) });
                }
                None => break,
                Some(_) => sleep(Duration::from_millis(2)),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(program.last_output())
    }

    /// GUID of the port that opensm was started on, from its command line.
    pub fn port(&self) -> Option<Guid> {
        let text = self.process.argument("-g")?.trim_start_matches("0x");
        u64::from_str_radix(text, 16).ok().map(Guid::new)
    }

    /// Returns whether opensm is running. Reaps the child if it has exited.
    pub fn poll_running(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            warn!(pid = self.process.pid, %status, "opensm exited");
            return false;
        }
        self.process.is_alive()
    }

    /// Sends SIGHUP, which makes opensm read the partitions file again and sweep the fabric. Returns `false`
    /// if the process is gone.
    pub fn send_sighup(&self) -> Result<bool, String> {
        self.process.signal(Signal::SIGHUP).map_err(|error| error.to_string())
    }

    pub fn stop(mut self) {
        info!(pid = self.process.pid, "stopping opensm");
        let _ = self.process.signal(Signal::SIGTERM);
        let until = Instant::now() + GRACE_PERIOD;
        while self.poll_running() && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
        if self.poll_running() {
            let _ = self.process.signal(Signal::SIGKILL);
        }
        if let Some(mut child) = self.child {
            let _ = child.wait();
        }
    }
}
