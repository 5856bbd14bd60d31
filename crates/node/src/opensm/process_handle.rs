//! Our opensm, started or found.

use super::{OpensmProgram, process::Process};
use ferroband_model::Guid;
use nix::sys::signal::Signal;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How long one may take to end before it is killed: with its port gone, it can hang.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// A running opensm of ours.
pub struct OpensmHandle {
    pub process: Process,
    /// If it was this daemon that started it.
    child: Option<Child>,
}

impl OpensmHandle {
    /// One that an earlier daemon has started. Several cannot be: a port has one.
    pub fn find_running(program: &OpensmProgram) -> Option<Self> {
        let [flag, file] = program.identifying_arguments();
        let ours = |process: &Process| process.argument(&flag) == Some(&file);
        let process = Process::list_own().into_iter().find(ours)?;
        info!(pid = process.pid, "an opensm of ours is running; it is taken over as it is");
        Some(Self { process, child: None })
    }

    /// Starts one.
    pub fn start(program: &OpensmProgram, port: Guid) -> Result<Self, String> {
        let mut command = program.start_command(port).map_err(|error| error.to_string())?;
        // Whoever interrupts us from a terminal does not mean opensm.
        let mut child = command.process_group(0).spawn().map_err(|error| error.to_string())?;
        let pid = child.id().cast_signed();
        // Until it is what it is to be, it is called as we are.
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

    /// The port that it was started on.
    pub fn port(&self) -> Option<Guid> {
        let text = self.process.argument("-g")?.trim_start_matches("0x");
        u64::from_str_radix(text, 16).ok().map(Guid::new)
    }

    /// Whether it runs; one that ended is laid to rest.
    pub fn poll_running(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            warn!(pid = self.process.pid, %status, "opensm has ended");
            return false;
        }
        self.process.is_alive()
    }

    /// SIGHUP: read the file, and sweep.
    pub fn send_sighup(&self) -> Result<bool, String> {
        self.process.signal(Signal::SIGHUP).map_err(|error| error.to_string())
    }

    /// Ends it.
    pub fn stop(mut self) {
        info!(pid = self.process.pid, "opensm is stopped");
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
