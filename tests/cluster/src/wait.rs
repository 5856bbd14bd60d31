//! Waiting with a time limit; failures show the last observation.

use std::time::{Duration, Instant};

/// Polls until the check succeeds; panics with its last error after `seconds`.
#[track_caller]
pub fn eventually<T>(what: &str, seconds: u64, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) if begin.elapsed() > Duration::from_secs(seconds) => {
                panic!("{what}: timed out after {seconds} s: {why}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Polls for `seconds`; panics if the check fails.
#[track_caller]
pub fn holds_for(what: &str, seconds: u64, mut holds: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        if let Err(why) = holds() {
            panic!("{what}: failed after {:.1} s: {why}", begin.elapsed().as_secs_f32());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
