//! Mode `node`: runs the script that sets up a cluster node, then reaps processes.

use std::thread;
use std::time::Duration;

use crate::program;

const UP: &str = "/lab/guest/node-up";
const LIMIT: Duration = Duration::from_secs(900);

/// Sets the machine up as a node, reports it on the console, and reaps orphans until the power is cut.
pub fn run() {
    let outcome = program::run(UP, LIMIT);
    match outcome.failure {
        None => println!("NODE ready"),
        Some(failure) => println!("NODE failed: {failure}: {}", outcome.last_line),
    }
    loop {
        program::reap();
        thread::sleep(Duration::from_millis(200));
    }
}
