//! A shell for a person, on the serial console as its own terminal.

use std::fs::OpenOptions;
use std::process::Command;
use std::time::Duration;

use crate::program;

/// Brings the fabric up and hands the console over until the shell ends.
pub fn run() {
    let ended = program::run("/lab/guest/fabric-up", Duration::from_secs(600));
    if let Some(failure) = ended.failure {
        println!("the fabric did not come up: {failure}; here is a shell to look around");
    }
    if let Err(error) = interactive() {
        println!("no shell: {error}");
    }
}

fn interactive() -> std::io::Result<()> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/ttyS0")?;
    // -c makes the terminal the controlling one, so that Ctrl-C reaches the shell's children and not nobody.
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
