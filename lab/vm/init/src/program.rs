//! Runs one program with a time limit, and kills its process group afterwards.

use std::io::{BufRead, BufReader, pipe};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Interval of the console's keep-alive lines; the host treats a silent machine as hung.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Result of a program that ended.
pub struct ProgramOutcome {
    /// Why it failed; none if it exited with 0 in time.
    pub failure: Option<String>,
    /// Its last non-empty line.
    pub last_line: String,
}

/// Runs `path`, copies its output to the console, and kills its process group at the limit.
pub fn run(path: &str, limit: Duration) -> ProgramOutcome {
    let (child, lines) = match start(path) {
        Ok(started) => started,
        Err(error) => {
            return ProgramOutcome {
                failure: Some(format!("cannot start {path}: {error}")),
                last_line: String::new(),
            };
        }
    };
    let group = Pid::from_raw(child.id().cast_signed());
    let failure = wait(child, limit);
    // Background processes must not disturb the next program.
    let _ = killpg(group, Signal::SIGKILL);
    let mut last_line = String::new();
    while let Ok(line) = lines.recv_timeout(Duration::from_secs(1)) {
        if !line.trim().is_empty() {
            last_line = line;
        }
    }
    reap();
    ProgramOutcome { failure, last_line }
}

fn start(path: &str) -> std::io::Result<(Child, Receiver<String>)> {
    let (reader, writer) = pipe()?;
    let child = Command::new(path)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/lab/bin:/lab/guest")
        .env("HOME", "/root")
        .env("LC_ALL", "C")
        .env("TERM", "vt100")
        .current_dir("/tmp")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            println!("| {line}");
            if send.send(line).is_err() {
                return;
            }
        }
    });
    Ok((child, lines))
}

fn wait(mut child: Child, limit: Duration) -> Option<String> {
    let start = Instant::now();
    let mut last_sign = start;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return describe(status),
            Ok(None) if start.elapsed() < limit => {
                thread::sleep(Duration::from_millis(20));
                if last_sign.elapsed() > KEEP_ALIVE {
                    last_sign = Instant::now();
                    println!("... {} s", start.elapsed().as_secs());
                }
            }
            Ok(None) => {
                let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
                let _ = child.wait();
                return Some(format!("timed out after {} s", limit.as_secs()));
            }
            Err(error) => return Some(format!("cannot wait for it: {error}")),
        }
    }
}

fn describe(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit {code}")),
        (_, signal) => Some(format!("killed by signal {}", signal.unwrap_or_default())),
    }
}

/// Reaps orphans, which become children of init.
pub fn reap() {
    while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            break;
        }
    }
}
