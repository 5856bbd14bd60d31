//! Mode `shell`: an interactive shell on the serial console.

use std::fs::OpenOptions;
use std::process::Command;
use std::time::Duration;

use crate::program;

/// Brings the fabric up and runs a shell on the console until it exits.
pub fn run() {
    let outcome = program::run("/lab/guest/fabric-up", Duration::from_secs(600));
    if let Some(failure) = outcome.failure {
        println!("the fabric did not come up: {failure}; starting a shell anyway");
    }
    if let Err(error) = interactive() {
        println!("cannot start a shell: {error}");
    }
}

fn interactive() -> std::io::Result<()> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/ttyS0")?;
    // -c makes it the controlling terminal, so that Ctrl-C reaches the shell's children.
    Command::new("/usr/bin/setsid")
        .args(["-c", "-w", "/bin/bash", "--rcfile", "/lab/guest/shellrc", "-i"])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/lab/bin:/lab/guest")
        .env("HOME", "/root")
        .env("TERM", "vt100")
        .current_dir("/root")
        .stdin(terminal.try_clone()?)
        .stdout(terminal.try_clone()?)
        .stderr(terminal)
        .status()
        .map(drop)
}
