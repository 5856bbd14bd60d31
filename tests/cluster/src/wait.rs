//! Waiting, bounded, with the last thing seen in the failure.

use std::time::{Duration, Instant};

/// Ask until the answer is there; panics with the last refusal after `seconds`.
#[track_caller]
pub fn eventually<T>(what: &str, seconds: u64, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) if begin.elapsed() > Duration::from_secs(seconds) => {
                panic!("{what}: not within {seconds} s: {why}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Ask for `seconds`; panics when it ever stops holding.
#[track_caller]
pub fn holds_for(what: &str, seconds: u64, mut holds: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        if let Err(why) = holds() {
            panic!("{what}: stopped holding after {:.1} s: {why}", begin.elapsed().as_secs_f32());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
