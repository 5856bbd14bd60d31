//! A node of a cluster: a script's work, and a first process that goes on.

use std::thread;
use std::time::Duration;

use crate::program;

const UP: &str = "/lab/guest/node-up";
const LIMIT: Duration = Duration::from_secs(900);

/// Makes the machine a node, says so on the console, and collects orphans until the power is cut.
pub fn run() {
    let ended = program::run(UP, LIMIT);
    match ended.failure {
        None => println!("NODE ready"),
        Some(failure) => println!("NODE failed: {failure}: {}", ended.last_line),
    }
    loop {
        program::reap();
        thread::sleep(Duration::from_millis(200));
    }
}
