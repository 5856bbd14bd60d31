//! Progress output: one line per step, updated in place on a terminal, plain lines elsewhere (CI logs).

use anyhow::Result;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A step in progress.
pub struct ProgressStep {
    title: String,
    start: Instant,
    last_update: Instant,
    is_terminal: bool,
}

impl ProgressStep {
    pub fn begin(title: impl Into<String>) -> Self {
        let (title, live) = (title.into(), std::io::stderr().is_terminal());
        if live {
            eprint!("\r\x1b[K  · {title}");
            let _ = std::io::stderr().flush();
        }
        Self { title, start: Instant::now(), last_update: Instant::now(), is_terminal: live }
    }

    /// Shows the progress: at most ten times a second on a terminal, every 15 s in a log.
    pub fn update(&mut self, detail: impl std::fmt::Display) {
        let pause = if self.is_terminal { Duration::from_millis(100) } else { Duration::from_secs(15) };
        if self.last_update.elapsed() < pause {
            return;
        }
        self.last_update = Instant::now();
        let seconds = self.start.elapsed().as_secs();
        if self.is_terminal {
            eprint!("\r\x1b[K  · {} {detail} ({seconds} s)", self.title);
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("  · {} {detail} ({seconds} s)", self.title);
        }
    }

    /// Ends the step successfully.
    pub fn finish(self, detail: impl std::fmt::Display) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let detail = detail.to_string();
        let gap = if detail.is_empty() { "" } else { ": " };
        eprintln!("{clear}  ✓ {}{gap}{detail} ({:.1} s)", self.title, self.start.elapsed().as_secs_f32());
    }

    /// Ends the step with a failure.
    pub fn fail(self) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}  ✗ {} ({:.1} s)", self.title, self.start.elapsed().as_secs_f32());
    }
}

/// Runs a step and prints whether it succeeded.
pub fn run_step<T>(title: impl Into<String>, work: impl FnOnce(&mut ProgressStep) -> Result<T>) -> Result<T> {
    let mut step = ProgressStep::begin(title);
    match work(&mut step) {
        Ok(value) => {
            step.finish("");
            Ok(value)
        }
        Err(error) => {
            step.fail();
            Err(error)
        }
    }
}

/// Polls until the check succeeds or the time limit is reached; the error contains the last failure.
pub fn wait_until(
    what: &str,
    limit: Duration,
    step: &mut ProgressStep,
    mut holds: impl FnMut() -> Result<(), String>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        match holds() {
            Ok(()) => return Ok(()),
            Err(why) if start.elapsed() > limit => {
                anyhow::bail!("{what}: timed out after {} s: {why}", limit.as_secs())
            }
            Err(why) => step.update(why),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
